/* cuda_words.c - streams that wait for words of the host: the last part of
 * test_cuda_fake.c. */

static ts_buffer pins;
static uint64_t *word;
static char *from, *to;
static int waits; /* of streams, before */

/* A device whose streams may wait for words. */
static void start_words(bool serial, double timeout_s) {
  const ts_device_options o = {
      .serial = serial, .n_threads = 1, .timeout_s = timeout_s};
  setenv("TESSERA_STREAM_WAITS", "1", 1);
  ck_assert_ok(ts_device_create(&p.device, "emulated", &o));
  unsetenv("TESSERA_STREAM_WAITS");
  ck_assert_ok(ts_lane_create(p.device, &p.lane, "waits", TS_LANE_COMPUTE));
  ck_assert_ok(ts_lane_create(p.device, &p.other, "other", TS_LANE_DATA));
  ck_assert_ok(
      ts_buffer_create(&pins, p.device, 192, TS_SPACE_PINNED, TS_TAG_MISC));
  word = pins.ptr;
  from = (char *)pins.ptr + 64;
  to = from + 64;
  waits = ts_emulated_now().word_waits;
}

static void stop_words(void) {
  ts_buffer_reset(&pins);
  stop();
}
TS_EACH_TEST_BETWEEN(NULL, stop_words)

static ts_err wait_word(uint64_t least) {
  return p.device->ops->wait_word(p.lane, word, least);
}

static void set_word(uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* The host goes on at once; what follows the wait sees what was written before
 * the word, and other lanes are not held up. */
TS_TEST(a_stream_waits_for_a_word) {
  start_words(false, 60);
  ck_assert_ptr_nonnull(p.device->ops->wait_word);
  set_word(4);
  ck_assert_ok(wait_word(4)); /* has come */
  ck_assert_ok(ts_lane_sync(p.lane));
  ck_assert_ok(wait_word(6));
  ck_assert_int_eq(ts_emulated_now().word_waits, waits + 2);
  ck_assert_ok(ts_lane_copy(p.lane, to, from, 8));
  const ts_event copied = ts_lane_record(p.lane);
  ck_assert_ok(ts_lane_submit(p.other, "a", nothing, NULL, 0));
  ck_assert_ok(ts_lane_sync(p.other));
  set_word(5);
  ts_pause(20000);
  ck_assert(!ts_event_done(copied));
  memcpy(from, "arrived", 8);
  set_word(7);
  ck_assert_ok(ts_event_sync(copied));
  ck_assert_str_eq(to, "arrived");
}

static void *set_later(void *arg) {
  ts_pause(50000);
  set_word(9);
  return arg;
}

/* Serial lanes, and more lanes than there are connections: the host waits. */
TS_TESTS(the_host_waits_for_a_word, 0, 2) {
  ts_lane *more[30];
  pthread_t thread;
  start_words(_i == 0, 60);
  for (int i = 0; i < 30 && _i; i++)
    ck_assert_ok(ts_lane_create(p.device, &more[i], "more", TS_LANE_DATA));
  ck_assert_int_eq(pthread_create(&thread, NULL, set_later, NULL), 0);
  ck_assert_ok(wait_word(9));
  ck_assert_uint_eq(*word, 9);
  ck_assert_int_eq(ts_emulated_now().word_waits, waits);
  pthread_join(thread, NULL);
  for (int i = 0; i < 30 && _i; i++) ts_lane_destroy(more[i]);
  ck_assert_ok(wait_word(8));
  ck_assert_int_eq(ts_emulated_now().word_waits, waits + (_i == 1));
}

/* A word that doesn't come is the lane's deadline, and no end of the program:
 * the stream goes on with the word of who gives up. */
TS_TEST(a_word_that_does_not_come) {
  start_words(false, 0.1);
  ck_assert_ok(wait_word(3));
  ck_assert_ok(ts_lane_submit(p.lane, "stands still", nothing, NULL, 0));
  ck_assert_int_eq(ts_lane_sync(p.lane), TS_ERR_COMM);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "\"stands still\""));
  ts_err_clear();
  set_word(INT64_MAX);
  ck_assert_ok(ts_lane_sync(p.lane));
}

/* The device says what it lacks, and the host waits, as it does unasked. */
TS_TESTS(words_that_may_not_be_used, 0, 4) {
  static const char *const bad[][3] = {
      {"CUDA_DEVICE_MAX_CONNECTIONS", "8", "there are 8 connections"},
      {"CUDA_DEVICE_MAX_COPY_CONNECTIONS", "2", "there are 2 connections"},
      {"CUDA_MODULE_LOADING", "LAZY", "CUDA_MODULE_LOADING is \"LAZY\""},
      {"TESSERA_FAKE_NO_WORDS", "1", "no 64-bit waits"}};
  ts_device_info info;
  const char *const *b = bad[_i];
  setenv(b[0], b[1], 1);
  start_words(false, 60);
  ck_assert_ptr_null(p.device->ops->wait_word);
  ck_assert(ts_device_describe(p.device, &info));
  ck_assert_ptr_nonnull(strstr(info.text, "the host waits for messages"));
  ck_assert_ptr_nonnull(strstr(info.text, b[2]));
  unsetenv(b[0]);
  choose();
}
