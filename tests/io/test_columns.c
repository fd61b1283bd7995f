/* test_columns.c - data.columns: what each kind of column reads of CSV, and
 * what is refused.  ranks: 1 2 */
#include "io/columns.h"

#include <math.h>

#include "io/datetime.h"
#include "tests/io/columns_rig.h"

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

/* DATA in a.csv are read as WANTED. */
static void reads(const char *csv, const char *columns, const char *tables,
                  int n_dense, const char *wanted) {
  write_file("a.csv", csv);
  ck_assert_ok(take_deck(CSV, columns, tables, n_dense));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), wanted);
  close_it();
}

/* They are refused with CODE and WORDS. */
static void refuses(const char *csv, const char *columns, const char *tables,
                    int n_dense, int code, const char *words) {
  write_file("a.csv", csv);
  ts_err err = take_deck(CSV, columns, tables, n_dense);
  if (err == TS_OK) err = open_it(TS_SPLIT_TRAIN);
  if (err == TS_OK) err = read_all();
  ck_assert_msg(err != TS_OK, "taken: %s", columns);
  ck_assert_msg(strstr(ts_err_message(), words), "\"%s\" is not in: %s", words,
                ts_err_message());
  ck_assert_int_eq(ts_err_exit_code(err), code);
  ts_err_clear();
  close_it();
}

#define LABEL "{ name = \"label\"; kind = \"label\"; from = \"y\"; }, "

/* Names in the model and in the file; the dense inputs in the list's order,
 * each with its transform. */
TS_TEST(names) {
  reads("y,n1,n2,city\n1,1,10,a\n0,3,,b\n1,0,10,a\n",
        LABEL "{ name = \"second\"; kind = \"dense\"; from = \"n2\"; transform "
              "= \"standardise\"; }, { name = \"first\"; kind = \"dense\"; "
              "from = \"n1\"; transform = \"log1p\"; }, { name = \"u\"; kind = "
              "\"ids\"; from = \"city\"; encoding = \"vocabulary\"; }",
        TABLE(3, "u"), 2, "1 0 0.69315 (1); 0 0 1.3863 (2); 1 0 0 (1)");
  reads("y,x1,x2,k7,k8\n1,1,2,a,c\n0,3,4,b,c\n",
        LABEL "{ name = \"I{1..2}\"; kind = \"dense\"; from = \"x{1..2}\"; }, "
              "{ name = \"C{1..2}\"; kind = \"ids\"; from = \"k{7..8}\"; "
              "encoding = \"vocabulary\"; }",
        "{ name = \"t{1..2}\"; rows = 3; dim = 4; features = \"C{1..2}\"; }", 2,
        "1 1 2 (1) (1); 0 3 4 (2) (1)");
}

TS_TEST(weights) {
#define WEIGHT LABEL "{ name = \"w\"; kind = \"weight\"; from = \"n\"; }"
  reads("y,n,u\n1,2,1\n0,0,1\n1,0.5,1\n",
        WEIGHT ", { name = \"u\"; kind = \"ids\"; encoding = \"none\"; }",
        TABLE(3, "u"), 0, "1 *2 (1); 0 *0 (1); 1 *0.5 (1)");
  static const char *const bad[] = {"-1", "inf", "nan", "x", ""};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char csv[64];
    snprintf(csv, sizeof csv, "y,n,u\n1,2,a\n0,%s,a\n", bad[i]);
    refuses(csv, WEIGHT, TABLE(3, "u"), 0, 3,
            "a.csv:3: column \"n\": a sample's weight is no number from 0 on");
  }
  refuses("y,u\n1,a\n", WEIGHT, TABLE(3, "u"), 0, 3, "no column \"n\"");
  refuses("y,u,n\n1,a,1\n",
          WEIGHT ", { name = \"v\"; kind = \"weight\"; from = \"u\"; }",
          TABLE(3, "u"), 0, 2, "two columns of kind \"weight\"");
  write_file("a.csv", "y,u\n1,a\n"); /* to predict none is needed */
  ck_assert_ok(take_deck(CSV "eval = \"a.csv\";", WEIGHT, TABLE(3, "u"), 0));
  ck_assert_ok(open_it(TS_SPLIT_PREDICT));
  ck_assert(!s->info.has_weights);
  close_it();
}

TS_TEST(labels) {
#define KIND(of) "{ name = \"y\"; kind = \"label\"; label = \"" of "\"; }"
  const char *csv = "y,u\n0.25,a\n1,a\n0,a\n";
  write_file("a.csv", csv);
  ck_assert_ok(take_deck(CSV, KIND("soft"), TABLE(1, "u"), 0));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "0.25 (0); 1 (0); 0 (0)");
  close_it();
  refuses(csv, KIND("binary"), TABLE(1, "u"), 0, 3, "neither 0 nor 1");
  refuses("y,u\n1.5,a\n", KIND("soft"), TABLE(1, "u"), 0, 3,
          "a.csv:2: column \"y\": the label is no number from 0 to 1: \"1.5\"");
  refuses(csv, KIND("count"), TABLE(1, "u"), 0, 2, "label = \"count\" is not");
  refuses(csv, KIND("real"), TABLE(1, "u"), 0, 2, "label = \"real\" is not");
  refuses(csv, KIND("soft") ", { name = \"z\"; kind = \"label\"; }",
          TABLE(1, "u"), 0, 2, "2 labels for 1 tasks");
}

/* The labels of a batch, sample by sample. */
static const char *all_labels(void) {
  const ts_batch *x = ts_batch_store_batch(b);
  char text[64];
  said.n_bytes = 0;
  for (int32_t i = 0; i < x->n * x->n_tasks; i++) {
    const char *before = i % x->n_tasks ? " " : i ? "; " : "";
    snprintf(text, sizeof text, "%s%g", before, (double)x->labels[i]);
    say(text);
  }
  return said.text;
}

/* Outputs name their labels, and what says which of them count: of a sample
 * that doesn't, the label is not looked at. */
TS_TEST(outputs) {
#define OUTPUTS                                                                \
  "model.outputs=({name=\"click\";}, {name=\"buy\"; where=\"click\";}, "       \
  "{name=\"stars\"; loss=\"mse\";}, {name=\"again\"; label=\"n\"; "            \
  "loss=\"poisson\";}, {name=\"other\"; label=\"n\"; loss=\"mae\"; "           \
  "where=\"w\";})"
  const char *csv = "u,click,buy,stars,n,w\na,1,1,-4.5,3,1\n"
                    "a,0,,2,0,0\na,1,0,1e3,7,1\n";
  const char *listed =
      "{ name = \"click\"; kind = \"label\"; }, { name = \"buy\"; kind = "
      "\"label\"; }, { name = \"stars\"; kind = \"label\"; label = \"real\"; "
      "}, { name = \"n\"; kind = \"label\"; label = \"count\"; }, { name = "
      "\"w\"; kind = \"label\"; }";
  one_set = OUTPUTS;
  for (int i = 0; i < 2; i++) {
    write_file("a.csv", csv);
    ck_assert_ok(take_deck(CSV, i ? listed : "", TABLE(1, "u"), 0));
    ck_assert_ok(open_it(TS_SPLIT_TRAIN));
    ck_assert_ok(read_all());
    ck_assert_str_eq(all_labels(), "1 1 -4.5 3 3; 0 nan 2 0 nan; 1 0 1000 7 7");
    close_it();
  }
  refuses("u,click,buy,stars,n,w\na,1,2,1,1,1\n", "", TABLE(1, "u"), 0, 3,
          "column \"buy\": the label is neither 0 nor 1: \"2\"");
  refuses("u,click,buy,stars,n,w\na,1,1,1,1,2\n", "", TABLE(1, "u"), 0, 3,
          "column \"w\": which samples count is neither 0 nor 1: \"2\"");
  refuses("u,click,buy,stars,n,w\na,1,1,x,1,1\n", "", TABLE(1, "u"), 0, 3,
          "column \"stars\": the label is no number: \"x\"");
  refuses("u,click,buy,stars,n,w\na,1,1,1,1.5,1\n", "", TABLE(1, "u"), 0, 3,
          "column \"n\": the label is no count: 0, 1, 2 and so on: \"1.5\"");
  refuses("u,click,buy,stars,n\na,1,1,1,1\n", "", TABLE(1, "u"), 0, 3,
          "no column \"w\"");
  refuses(csv, "{ name = \"click\"; kind = \"label\"; }", TABLE(1, "u"), 0, 2,
          "no column of kind \"label\" for task \"buy\"");
  one_set = "model.outputs=({name=\"y\"; loss=\"mse\";})";
  refuses("u,y\na,1\n", KIND("binary"), TABLE(1, "u"), 0, 2,
          "mse, mae and huber \"real\"");
  one_set = NULL;
}

/* Hashes differ by the seed, and 0 is what they were without one. */
TS_TEST(encodings) {
#define IDS(more)                                                              \
  LABEL "{ name = \"u\"; kind = \"ids\"; from = \"g\"; " more " }"
  const char *csv = "y,g\n1,7\n0,-3\n1,12345678901234567890\n0,\n";
  reads(csv, IDS("encoding = \"modulo\";"), TABLE(10, "u"), 0,
        "1 (7); 0 (7); 1 (0); 0 ()");
  reads("y,g\n1,7\n0,\n", IDS("encoding = \"none\";"), TABLE(10, "u"), 0,
        "1 (7); 0 ()");
  refuses("y,g\n1,7\n0,10\n", IDS("encoding = \"none\";"), TABLE(10, "u"), 0, 3,
          "a.csv:3: feature u: id 10 is not a row of table u, which has 10 "
          "rows; data.on_bad_id = \"drop\"");
  refuses("y,g\n1,7\n0,a\n", IDS("encoding = \"none\";"), TABLE(10, "u"), 0, 3,
          "a.csv:3: column \"g\": an id is no whole number: \"a\"");
  reads("y,g\n1,a\n0,b\n", IDS("encoding = \"hash\";"), TABLE(1000, "u"), 0,
        "1 (315); 0 (704)");
  reads("y,g\n1,a\n0,b\n", IDS("encoding = \"hash\"; seed = 1;"),
        TABLE(1000, "u"), 0, "1 (730); 0 (241)");
}

TS_TEST(lists) {
  const char *csv = "y,g\n1,3|1|2\n0,\n1,1\n";
  reads(csv, IDS("encoding = \"none\"; list_separator = \"|\";"),
        TABLE(10, "u"), 0, "1 (3,1,2); 0 (); 1 (1)");
  reads(csv,
        IDS("encoding = \"none\"; list_separator = \"|\"; max_length = 2;"),
        TABLE(10, "u"), 0, "1 (3,1); 0 (); 1 (1)");
  reads(csv,
        IDS("encoding = \"none\"; list_separator = \"|\"; max_length = 2; "
            "truncate = \"oldest\";"),
        TABLE(10, "u"), 0, "1 (1,2); 0 (); 1 (1)");
  write_file("a.csv", csv);
  ck_assert_ok(take_deck(CSV "on_bad_id = \"drop\";",
                         IDS("encoding = \"none\"; list_separator = \"|\";"),
                         TABLE(3, "u"), 0));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "1 (1,2); 0 (); 1 (1)");
  ck_assert_int_eq(s->n_bad_ids, 1);
  close_it();
}

/* What is missing is unknown, or a word; "(" comes before letters. */
/* Words are counted over all ranks, items of lists each. */
TS_TEST(rare_words) {
  reads("y,g\n1,b\n0,c\n1,d\n0,b\n1,d\n0,a\n",
        IDS("encoding = \"vocabulary\"; min_count = 2;"), TABLE(3, "u"), 0,
        "1 (1); 0 (0); 1 (2); 0 (1); 1 (2); 0 (0)");
  reads("y,g\n1,b|c\n0,c|c\n1,a\n0,b\n",
        IDS("encoding = \"vocabulary\"; min_count = 3; list_separator = "
            "\"|\";"),
        TABLE(2, "u"), 0, "1 (0,1); 0 (1,1); 1 (0); 0 (0)");
  refuses("y,g\n1,b\n", IDS("encoding = \"hash\"; min_count = 2;"),
          TABLE(3, "u"), 0, 2, "min_count of \"u\" is for a vocabulary");
}

#define EVAL "eval = \"a.csv\";"

/* How often words were there is kept beside them; files of older versions,
 * which have words alone, are read as they were. */
TS_TEST(counts) {
  write_file("a.csv", "y,g\n1,b\n0,c\n1,\"d\n\\\"\n0,b\n1,c\n0,b\n");
  ck_assert_ok(
      take_deck(CSV EVAL, IDS("encoding = \"vocabulary\";"), TABLE(4, "u"), 0));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_str_eq(words_of(0), "b*3 c*2 d\n\\*1");
  open_again();
  ck_assert_str_eq(said.text, "W 3 u\nb\nc\nd\\n\\\\\nN 3 u\n3\n2\n1\n");
  ck_assert_str_eq(words_of(0), "b*3 c*2 d\n\\*1");
  open_again();
  ck_assert_str_eq(words_of(0), "b*3 c*2 d\n\\*1");
  ts_source_close(s);
  ck_assert_ok(ts_source_open(&s, c, TS_SPLIT_EVAL, "V 2 u\na\nb\n", f.comm));
  ck_assert_str_eq(words_of(0), "a*-1 b*-1");
  open_again();
  ck_assert_str_eq(said.text, "V 2 u\na\nb\n");
  static const char *const bad[] = {
      "V 2 u\na\nb\nN 3 u\n1\n2\n3\n", "V 2 u\na\nb\nN 2 u\n1\n",
      "V 2 u\na\nb\nN 2 u\n1\n-2\n", "N 1 u\n1\n"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ts_source *none = NULL;
    ck_assert_int_eq(ts_source_open(&none, c, TS_SPLIT_EVAL, bad[i], f.comm),
                     TS_ERR_CKPT);
    ts_err_clear();
  }
  close_it();
}

/* A word has one row, whichever column of the group it is in; so has a list's.
 * A checkpoint has it once. */
TS_TEST(groups) {
#define IN(name, more)                                                         \
  "{ name = \"" name "\"; kind = \"ids\"; encoding = \"vocabulary\"; " more " }"
#define SHARED                                                                 \
  "{ name = \"t\"; rows = \"auto\"; dim = 4; features = [\"a\", \"c\"]; }, "   \
  "{ name = \"l\"; rows = \"auto\"; dim = 4; features = \"b\"; }"
  static const char csv[] = "y,a,b,c\n1,p,q|r,o\n0,r,p,o\n1,,o|z,p\n";
  const char *columns = LABEL IN("a", "group = \"g\"; min_count = 2;") ", " IN(
      "c", "") ", " IN("b", "group = \"g\"; min_count = 2; "
                            "list_separator = \"|\";");
  write_file("a.csv", csv);
  ck_assert_ok(take_deck(CSV EVAL, columns, SHARED, 0));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  for (int i = 0; i < 2; i++) {
    ck_assert_ok(read_all());
    ck_assert_str_eq(batch(),
                     "1 (1) (1) (0,2); 0 (2) (1) (1); 1 (0) (2) (0,0)");
    ck_assert_str_eq(words_of(0), "p*2 r*2");
    ck_assert_str_eq(words_of(1), "o*2 p*1");
    ck_assert_str_eq(words_of(2), "p*2 r*2");
    ck_assert_int_eq(c->tables[0].rows, 3);
    ck_assert_int_eq(c->tables[1].rows, 3);
    ts_batch_store_destroy(b);
    open_again();
  }
  ck_assert_str_eq(said.text,
                   "V 2 a\np\nr\nV 2 c\no\np\nN 2 a\n2\n2\nN 2 c\n2\n1\n");
  b = NULL;
  close_it();
  refuses(csv,
          LABEL IN("a", "group = \"g\"; min_count = 2;") ", " IN(
              "c", "") ", " IN("b", "group = \"g\";"),
          SHARED, 0, 2,
          "\"a\" and \"b\" have group \"g\", whose min_count is 2 of the one "
          "and 1 of the other");
  refuses("y,g\n1,b\n", IDS("encoding = \"hash\"; group = \"g\";"),
          TABLE(3, "u"), 0, 2, "group of \"u\" is for a vocabulary");
}

/* The ranks of a node have one copy of the words, which another source of the
 * same words takes, too; nothing of it stays. */
TS_TEST(one_copy_a_node) {
  enum { WORDS = 3000 };
  static char csv[16 * WORDS];
  char *to = stpcpy(csv, "y,g\n");
  int64_t bytes, of_all;
  ts_source *eval;
  ts_words words;
  for (int i = 0; i < WORDS; i++) to += sprintf(to, "%d,w%04d\n", i % 2, i);
  write_file("a.csv", csv);
  ck_assert_ok(take_deck(CSV EVAL, IDS("encoding = \"vocabulary\";"),
                         TABLE("auto", "u"), 0));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(s->ops->state_save(s, &said));
  ck_assert_ok(ts_source_open(&eval, c, TS_SPLIT_EVAL, said.text, f.comm));
  bytes = ts_mem_stat_of(TS_TAG_WORDS, TS_SPACE_HOST).now_bytes;
  ck_assert_ok(ts_comm_sum_i64(f.comm, &bytes, 1));
  ck_assert_int_eq(ts_vocabularies_count(eval->vocabularies, &of_all), WORDS);
  ck_assert_int_ge(bytes, of_all);
  ck_assert_int_lt(bytes, of_all + of_all / 4);
  ts_source_close(s); /* on ranks as they come */
  s = eval;
  ck_assert(ts_source_words(s, 0, &words));
  for (int i = 0; i < WORDS; i++) {
    ck_assert_int_eq(atoi(ts_words_at(&words, i) + 1), i);
    ck_assert_int_eq(words.times[i], 1);
  }
  close_it();
  ck_assert_int_eq(ts_mem_stat_of(TS_TAG_WORDS, TS_SPACE_HOST).now_bytes, 0);
}

TS_TEST(missing) {
  static const char csv[] = "y,g\n1,b\n0,\n1,NA\n0,c\n";
  reads(csv, IDS("encoding = \"vocabulary\";"), TABLE(9, "u"), 0,
        "1 (2); 0 (0); 1 (1); 0 (3)");
  write_file("a.csv", csv);
  ck_assert_ok(take_deck(CSV "csv = { missing = \"NA\"; };",
                         IDS("encoding = \"vocabulary\"; missing = \"word\"; "
                             "list_separator = \"|\";"),
                         TABLE(9, "u"), 0));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "1 (2); 0 (1); 1 (1); 0 (3)");
  close_it();
  refuses(csv, IDS("encoding = \"none\"; missing = \"word\";"), TABLE(9, "u"),
          0, 2, "missing = \"word\" is no number");
}

/* The words of two columns are one; a part of it may be missing. */
TS_TEST(crosses) {
  const char *csv = "y,g,h\n1,a,b\n0,a,c\n1,a,b\n0,,c\n1,ab,\n0,,\n";
  reads(csv,
        LABEL "{ name = \"u\"; kind = \"ids\"; encoding = \"vocabulary\"; "
              "cross = [\"g\", \"h\"]; }",
        TABLE(9, "u"), 0, "1 (2); 0 (3); 1 (2); 0 (1); 1 (4); 0 (0)");
  refuses(csv,
          LABEL "{ name = \"u\"; kind = \"ids\"; cross = [\"g\", \"i\"]; }",
          TABLE(9, "u"), 0, 3, "no column \"i\"");
  refuses(csv, LABEL "{ name = \"u\"; kind = \"ids\"; cross = [\"g\"]; }",
          TABLE(9, "u"), 0, 2, "two columns or more");
}

/* Of a time: an id where a feature has the name, else a number. */
TS_TEST(parts_of_times) {
  reads("y,t\n1,2014-10-21 13:05\n0,2016-02-29T00:59:01.5Z\n1,\n",
        LABEL "{ name = \"u\"; kind = \"time\"; part = \"hour\"; from = \"t\"; "
              "}, { name = \"v\"; kind = \"ids\"; part = \"weekday\"; from = "
              "\"t\"; encoding = \"vocabulary\"; }, { name = \"day\"; kind = "
              "\"time\"; part = \"day\"; from = \"t\"; }, { name = \"t\"; kind "
              "= \"time\"; }",
        TABLE("auto", "u") ", " TABLE(3, "v"), 1,
        "1 21 (13) (2); 0 29 (0) (1); 1 0 () (0)");
  refuses("y,t\n1,2014-10-21 13:05\n0,21.10.2014\n",
          LABEL "{ name = \"u\"; kind = \"time\"; part = \"hour\"; from = "
                "\"t\"; }",
          TABLE(24, "u"), 0, 3,
          "a.csv:3: column \"t\": a field is no date and time with that part: "
          "\"21.10.2014\"");
}

static int64_t part(const char *text, const char *word) {
  return ts_time_read(text, strlen(text), ts_time_part_of(word));
}

TS_TEST(forms_of_times) {
  static const char *const words[] = {"year",    "month", "day",
                                      "weekday", "hour",  "minute"};
  static const struct {
    const char *text;
    int64_t part[6];
  } forms[] = {{"2014-10-21", {2014, 10, 21, 1, -1, -1}},
               {"2014/10/21", {2014, 10, 21, 1, -1, -1}},
               {"2014-10-21 13:05:59 +02:00", {2014, 10, 21, 1, 13, 5}},
               {"2014-10-21T13:05:59.25-0700", {2014, 10, 21, 1, 13, 5}},
               {"1899-12-31 23:59", {1899, 12, 31, 6, 23, 59}},
               {"14102113", {2014, 10, 21, 1, 13, -1}},
               {"1413896759", {2014, 10, 21, 1, 13, 5}},
               {"1413896759.75", {2014, 10, 21, 1, 13, 5}},
               {"1413896759000", {2014, 10, 21, 1, 13, 5}},
               {"1456790399", {2016, 2, 29, 0, 23, 59}},
               {"951827696", {2000, 2, 29, 1, 12, 34}},
               {"1704067199", {2023, 12, 31, 6, 23, 59}},
               {"1704067200", {2024, 1, 1, 0, 0, 0}}};
  static const char *const none[] = {"",
                                     "a",
                                     "2014-13-01",
                                     "2014-02-29",
                                     "2014-1-2",
                                     "20141021",
                                     "2014-10-21x",
                                     "2014-10-21 ",
                                     "12345678901",
                                     "2014-10/21",
                                     "2014-10-21 24:00",
                                     "2014-10-21 1:00",
                                     "14102124",
                                     "-1413896759",
                                     "1.5"};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    for (int k = 0; k < 6; k++)
      ck_assert_msg(part(forms[i].text, words[k]) == forms[i].part[k],
                    "%s of %s: %lld", words[k], forms[i].text,
                    (long long)part(forms[i].text, words[k]));
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    ck_assert_msg(part(none[i], "day") == -1, "taken: %s", none[i]);
}

/* One message each, when the deck is read. */
TS_TEST(decks) {
  static const struct {
    const char *data, *columns, *words;
  } bad[] = {
      {CSV, "{ name = \"u\"; }", "deck:3: data.columns: a column has no kind"},
      {CSV, "{ kind = \"ids\"; }", "a column has no name"},
      {CSV, "{ name = \"w\"; kind = \"ids\"; }",
       "no table has a feature \"w\""},
      {CSV, "{ name = \"u\"; kind = \"ids\"; }",
       "no column of kind \"ids\" for feature \"v\" of table v"},
      {CSV, "{ name = \"u\"; kind = \"key\"; encoding = \"hash\"; }",
       "encoding of \"u\" is for kind \"ids\""},
      {CSV, "{ name = \"u\"; kind = \"ids\"; transform = \"log1p\"; }",
       "transform of \"u\" is for kind \"dense\""},
      {CSV, "{ name = \"x\"; kind = \"dense\"; }",
       "1 columns of kind \"dense\", model.dense_features = 0"},
      {CSV "csv = { dense = \"x\"; };", "{ name = \"x\"; kind = \"dense\"; }",
       "data.csv.dense is given, too"},
      {CSV "csv = { list_separator = \"|\"; };",
       "{ name = \"{u..v}\"; kind = \"ids\"; }", "{a..b} takes two numbers"},
      {CSV "csv = { label = \"y\"; };", "{ name = \"y\"; kind = \"label\"; }",
       "data.csv.label is given, too"},
      {CSV "csv = { list_separator = \"|\"; };",
       "{ name = \"u\"; kind = \"ids\"; }, { name = \"v\"; kind = \"ids\"; }",
       "data.csv.list_separator is given, too"},
      {CSV,
       "{ name = \"k\"; kind = \"key\"; }, { name = \"k\"; kind = "
       "\"key\"; }",
       "\"k\" is there twice"},
      {"format = \"synthetic\";", "{ name = \"k\"; kind = \"key\"; }",
       "data of format synthetic has no columns"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const ts_err err = take_deck(bad[i].data, bad[i].columns,
                                 TABLE(3, "u") ", " TABLE(3, "v"), 0);
    ck_assert_msg(err == TS_ERR_DECK, "taken: %s", bad[i].columns);
    ck_assert_msg(strstr(ts_err_message(), bad[i].words), "\"%s\" not in: %s",
                  bad[i].words, ts_err_message());
    ts_err_clear();
    ts_deck_destroy(c);
  }
}

/* The deck in force reads as the deck. */
TS_TEST(in_force) {
  ts_str text = {0};
  ts_config *again = NULL;
  uint64_t hash[2];
  ck_assert_ok(take_deck(CSV,
                         "{ name = \"C{1..2}\"; kind = \"ids\"; from = "
                         "\"k{3..4}\"; }, { name = \"k\"; kind = \"key\"; }",
                         "{ name = \"t{1..2}\"; rows = 3; dim = 4; features = "
                         "\"C{1..2}\"; }",
                         0));
  ck_assert_int_eq(c->data.n_columns, 3);
  ck_assert_str_eq(c->data.columns[1].name, "C2");
  ck_assert_str_eq(ts_column_of_feature(c, 1).from, "k4");
  ck_assert_ok(ts_deck_print(&text, c));
  ck_assert_ok(ts_deck_parse(&again, text.text, dir, NULL, 0));
  ck_assert_ok(ts_deck_hash(&hash[0], c));
  ck_assert_ok(ts_deck_hash(&hash[1], again));
  ck_assert(hash[0] == hash[1]);
  ts_str_reset(&text);
  ts_deck_destroy(again);
  close_it();
}
