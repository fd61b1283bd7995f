/* trace_reader.c - tests of the reader of traces: texts, and what covers what.
 */
#include "tests/support/harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/trace.h"

static ts_err read_text(ts_trace *t, const char *text) {
  char path[] = "/tmp/tessera-trace-XXXXXX";
  const int fd = mkstemp(path);
  ck_assert(fd >= 0);
  ck_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
  ts_err err = ts_trace_read(t, path);
  unlink(path);
  return err;
}

#define HEAD "{\"otherData\": {\"program\": \"tessera\"},\n \"traceEvents\": ["
#define SPAN(name, cat, row, at, dur, batch)                                   \
  "{\"ph\":\"X\" , \"name\":\"" name "\",\"cat\":\"" cat                       \
  "\",\"pid\":1,\"tid\":" #row ",\"ts\":" #at ",\"dur\":" #dur                 \
  ",\"args\":{\"phase\":\"forward\", \"batch\":" #batch                        \
  ",\"more\":[1,{\"x\":null}]}}"

/* Any layout, any order, with members that are not ours. */
TS_TEST(reader_reads) {
  ts_trace t;
  const char *text = "\n" HEAD "\t" SPAN("b", "comm", 3, 20, 5, 8) ",\n\n" SPAN(
      "a\\\"", "compute", 2, 1e1, 2.5, 7) " , {\"ph\":\"C\",\"pid\":1,"
                                          "\"name\":\"m\",\"args\":{"
                                          "\"phase\":\"x\"}},"
                                          "{\"ph\":\"M\",\"pid\":1,"
                                          "\"tid\":3,\"name\":"
                                          "\"thread_name\",\"args\":{"
                                          "\"name\":\"out\"}}], \"end\": "
                                          "true } \n";
  ck_assert_ok(read_text(&t, text));
  ck_assert_int_eq(t.n_spans, 2);
  ck_assert_int_eq(t.n_lanes, 2);
  ck_assert_int_eq(t.n_ranks, 2);
  ck_assert_str_eq(t.spans[0].name, "a\"");
  ck_assert_int_eq(t.spans[0].batch, 7);
  ck_assert(t.spans[0].t0 == 10 && t.spans[0].t1 == 12.5);
  ck_assert_int_eq(t.spans[0].kind, TS_SPAN_COMPUTE);
  ck_assert_int_eq(t.spans[1].kind, TS_SPAN_COMM);
  ck_assert_str_eq(t.lanes[t.spans[1].lane].name, "out");
  ck_assert_ptr_eq(t.spans[0].phase, t.spans[1].phase);
  ts_trace_reset(&t);
}

TS_TEST(reader_refuses) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", ":1: this is no trace of tessera: an object is missing"},
      {"[]", "an object is missing"},
      {"{\"traceEvents\":[]}", "otherData.program"},
      {"{\"otherData\":{\"program\":\"x\"}}", "otherData.program"},
      {HEAD "{\"ph\":\"X\"}]}",
       ":2: this is no trace of tessera: Object item not found: "
       "pid"},
      {HEAD "{\"ph\":1}]}", "Expected string, got integer"},
      {HEAD SPAN("a", "gpu", 0, 1, 1, 1) "]}", "of no kind"},
      {HEAD SPAN("a", "comm", 0, x, 1, 1) "]}", "invalid token near 'x'"},
      {HEAD SPAN("a", "comm", 0, 1, 1, 1), "an array has no end"},
      {HEAD SPAN("a", "comm", 0, 1, 1, 1) ",", "near end of file"},
      {HEAD "]} x", "more behind its end"},
      {"{\"a\":[[[[[[[[[[[[[[[[[[[[1", "near end of file"},
      {"{\"a\":\"", "premature end of input"},
      {"{\"a\" 1}", "a colon is missing"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ts_trace t;
    ck_assert_int_eq(read_text(&t, cases[i].text), TS_ERR_DATA);
    ck_assert_msg(strstr(ts_err_message(), cases[i].message) != NULL,
                  "case %zu: %s", i, ts_err_message());
    ts_err_clear();
  }
}

TS_TEST(cover_overlaps) {
  ts_trace t;
  ts_cover c;
  ck_assert_ok(read_text(
      &t, HEAD SPAN("a", "compute", 0, 10, 10, 1) "," SPAN(
              "a", "compute", 1, 15, 10,
              1) "," SPAN("w", "wait", 0, 25, 20, 1) "," SPAN("a", "compute", 0,
                                                              50, 5, 2) "]}"));
  ck_assert_ok(ts_cover_make(&c, &t, 1, NULL, NULL));
  ck_assert_int_eq(c.n, 2); /* 10 to 25, 50 to 55: waits are no compute */
  ck_assert(ts_cover_overlap(&c, 0, 100) == 20);
  ck_assert(ts_cover_overlap(&c, 20, 52) == 7);
  ck_assert(ts_cover_overlap(&c, 12, 13) == 1);
  ck_assert(ts_cover_overlap(&c, 25, 50) == 0);
  ck_assert(ts_cover_overlap(&c, 60, 70) == 0);
  ts_cover_reset(&c);
  ck_assert_ok(ts_cover_make(&c, &t, 0, NULL, NULL));
  ck_assert_int_eq(c.n, 0);
  ts_cover_reset(&c);
  ts_trace_reset(&t);
}
