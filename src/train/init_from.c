/* init_from.c - initial weights from a file.
 *
 * Where ids are words, a row is a word's, and its number is another one in
 * every vocabulary.  So a word takes the row that the file has for that word;
 * words that the file does not know keep what the seed gave them.  A file that
 * says nothing of words (another program's) has its rows taken by number. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "dense/param_optim.h"
#include "io/batch_store.h"
#include "io/checkpoint.h"
#include "io/deck.h"
#include "io/tensors.h"
#include "train/planning.h"
#include "train/state_dense.h"
#include "train/state_ids.h"

typedef struct ts_matching {
  const char *path;
  const ts_config *here;
  const ts_source *train;
  ts_config *config;      /* of the file, NULL: it does not say */
  ts_vocabularies *words; /* of the file, NULL: there are none */
  ts_str matched;         /* "3 of 7 of table a, ..." */
  bool *by_number;        /* (n_tables) words on one side alone */
} ts_matching;

static void matching_reset(ts_matching *m) {
  ts_vocabularies_destroy(m->words);
  ts_deck_destroy(m->config);
  ts_str_reset(&m->matched);
  ts_mem_free(m->by_number);
}

static const ts_table_config *table_there(const ts_matching *m,
                                          const ts_table_config *c) {
  for (int32_t i = 0; m->config && i < m->config->n_tables; i++)
    if (!strcmp(m->config->tables[i].name, c->name))
      return &m->config->tables[i];
  return NULL;
}

/* The feature of the file's table C whose words are those of FEATURE there:
 * the table's only one, or the one of the same name; -1: none. */
static int32_t feature_there(const ts_matching *m, const ts_table_config *c,
                             const char *feature) {
  const ts_table_config *there = table_there(m, c);
  const char *name;
  for (int32_t f = 0; m->words && f < ts_feature_count(m->config); f++) {
    if (ts_feature_table(m->config, f, &name) != there) continue;
    if (there->features.n == 1 && c->features.n == 1) return f;
    if (!strcmp(name, feature)) return f;
  }
  return -1;
}

/* FROM (rows of the table): the row of the word there.  Returns the number of
 * words that both have. */
static int64_t match(int64_t *from, int64_t rows, const ts_words *here,
                     const ts_words *there) {
  int64_t n = 0;
  for (int64_t i = 0; i < rows; i++) from[i] = -1;
  from[0] = 0; /* of words that are unknown or missing */
  for (int64_t i = 0, k = 0; i < here->n && k < there->n;) {
    const int c = strcmp(ts_words_at(here, i), ts_words_at(there, k));
    if (c == 0) {
      from[i + 1] = k + 1;
      n++;
    }
    i += c <= 0;
    k += c >= 0;
  }
  return n;
}

/* FEATURE's words HERE and THERE, of table C, which is ITEM. */
static ts_err match_feature(const ts_matching *m, const ts_table_config *c,
                            ts_ckpt_item *item, const ts_words *here,
                            const ts_words *there, int64_t *n) {
  ts_err err = TS_OK;
  int64_t *from = NULL;
  TS_TRY(ts_mem_many(from, item->rows, CHECKPOINT));
  *n = match(from, item->rows, here, there);
  if (!item->from) {
    item->from = from;
    return TS_OK;
  }
  if (memcmp(from, item->from, (size_t)item->rows * sizeof *from) != 0)
    TS_THROW(TS_ERR_CKPT,
             "%s: the features of table %s share its rows, and their words "
             "have others there than here: give each feature its own table",
             m->path, c->name);
done:
  ts_mem_free(from);
  return err;
}

/* Rows of the same numbers are read as they are. */
static ts_err note_table(ts_matching *m, const ts_table_config *c,
                         ts_ckpt_item *item, int64_t n_words, int64_t n) {
  const ts_table_config *there = table_there(m, c);
  bool same = there->rows == c->rows;
  for (int64_t r = 0; r <= n_words; r++) same &= item->from[r] == r;
  if (same) {
    ts_mem_free(item->from);
    item->from = NULL;
    return TS_OK;
  }
  return ts_str_append(&m->matched, "%s%lld of %lld of table %s",
                       m->matched.n_bytes ? ", " : "", (long long)n,
                       (long long)n_words, c->name);
}

static bool is_same_format(const ts_matching *m) {
  const ts_strings *paths = m->config ? &m->config->data.train : NULL;
  const ts_source_ops *there =
      paths && paths->n ? ts_source_of(m->config, paths->item[0]) : NULL;
  return there && !strcmp(there->format, m->train->info.format);
}

/* Words on one side alone: their rows are of other ids for certain where both
 * are of one format, and else perhaps. */
static ts_err one_sided(ts_matching *m, const ts_table_config *c, bool here) {
  static const char *const what[] = {"numbers or hashes", "a vocabulary's"};
  if (m->config && !table_there(m, c)) return TS_OK;
  if (is_same_format(m))
    return ts_fail(TS_ERR_CKPT,
                   "%s: the ids of table %s are %s there and %s here: give "
                   "the encoding as it was, or the table another name, "
                   "which draws it from the seed",
                   m->path, c->name, what[!here], what[here]);
  m->by_number[c - m->here->tables] = true;
  return TS_OK;
}

/* A part's row is of several words: it is of the same ones there where words
 * have the same numbers. */
static ts_err match_part(const ts_matching *m, const ts_table_config *c,
                         const ts_words *here, const ts_words *there) {
  bool same = here->n == there->n;
  for (int64_t i = 0; same && i < here->n; i++)
    same = !strcmp(ts_words_at(here, i), ts_words_at(there, i));
  if (same) return TS_OK;
  return ts_fail(TS_ERR_CKPT,
                 "%s: table %s has compress, and its words are others there "
                 "than here: its rows, which are of several words each, can't "
                 "be matched by word",
                 m->path, c->whole->name);
}

/* Table C, whose features are those from FIRST on. */
static ts_err match_table(ts_matching *m, const ts_table_config *c,
                          int32_t first, ts_ckpt_item *item) {
  ts_words here, there;
  int64_t n = 0;
  const char *name;
  for (int32_t i = 0; i < c->features.n; i++) {
    (void)ts_feature_table(m->here, first + i, &name);
    const int32_t k = feature_there(m, c, name);
    const bool is_here = ts_source_words(m->train, first + i, &here);
    const bool is_there = k >= 0 && ts_vocabularies_words(m->words, k, &there);
    if (ts_table_is_dynamic(c) && (is_here || is_there))
      return ts_fail(TS_ERR_DECK,
                     "checkpoint.init_from: table %s: rows = \"dynamic\" go by "
                     "ids, and those of a vocabulary are other words' in %s",
                     c->name, m->path);
    if (is_here != is_there) return one_sided(m, c, is_here);
    if (is_here && c->whole)
      TS_DO(match_part(m, c, &here, &there));
    else if (is_here)
      TS_DO(match_feature(m, c, item, &here, &there, &n));
  }
  return item->from ? note_table(m, c, item, here.n, n) : TS_OK;
}

ts_ckpt_item *ts_trainer_item(const ts_ckpt *ckpt, const char *name) {
  for (int32_t i = 0; i < ckpt->n_items; i++)
    if (!strcmp(ckpt->items[i].name + strlen("model/"), name))
      return &ckpt->items[i];
  return NULL;
}

/* Where table NAME's rows are others its optimizer's are, too: ITEM's. */
static ts_err match_state(const ts_ckpt *ckpt, const ts_ckpt_item *item,
                          const char *name) {
  const size_t n = strlen(name);
  for (int32_t i = 0; item->from && i < ckpt->n_items; i++) {
    ts_ckpt_item *of = &ckpt->items[i];
    if (strncmp(of->name, "optim/", 6) != 0 ||
        strncmp(of->name + 6, name, n) != 0 || of->name[6 + n] != '/')
      continue;
    TS_DO(ts_mem_many(of->from, of->rows, CHECKPOINT));
    memcpy(of->from, item->from, (size_t)of->rows * sizeof *of->from);
  }
  return TS_OK;
}

static ts_err match_words(ts_matching *m, const ts_ckpt *ckpt) {
  ts_err err = TS_OK;
  ts_str name = {0};
  if (!ts_path_is_safetensors(m->path))
    TS_TRY(ts_ckpt_recall(&m->config, &m->words, m->path));
  TS_TRY(ts_mem_many(m->by_number, m->here->n_tables, CHECKPOINT));
  for (int32_t i = 0, first = 0; i < m->here->n_tables; i++) {
    const ts_table_config *c = &m->here->tables[i];
    ts_str_reset(&name);
    TS_TRY(ts_param_table_name(&name, c));
    ts_ckpt_item *item = ts_trainer_item(ckpt, name.text);
    TS_TRY(match_table(m, c, first, item));
    TS_TRY(match_state(ckpt, item, name.text));
    first += c->features.n;
  }
done:
  ts_str_reset(&name);
  return err;
}

/* The tables of words that were taken by number, of those that the file has. */
static ts_err note_by_number(const ts_matching *m, const char *missing) {
  ts_err err = TS_OK;
  ts_str names = {0}, item = {0};
  for (int32_t i = 0; i < m->here->n_tables; i++) {
    const ts_table_config *c = &m->here->tables[i];
    ts_str_reset(&item);
    TS_TRY(ts_param_table_name(&item, c));
    if (m->by_number[i] && !(missing && strstr(missing, item.text)))
      TS_TRY(ts_str_append(&names, "%s%s", names.n_bytes ? ", " : "", c->name));
  }
  if (names.n_bytes)
    ts_note("rows by number: the words of either side are not known, so rows "
            "of these tables can't be matched by word, and are of other words "
            "where the numbers differ: %s",
            names.text);
done:
  ts_str_reset(&names);
  ts_str_reset(&item);
  return err;
}

/* The tensors in FOLDER, as rank 0 sees them; unset where there are none. */
static ts_err find_tensors(ts_trainer *t, ts_str *path, const char *folder) {
  char name[4400] = "";
  ts_str found = {0};
  ts_err err = t->rank == 0 ? ts_tensors_in(&found, folder, "model") : TS_OK;
  if (found.text) snprintf(name, sizeof name, "%s", found.text);
  ts_str_reset(&found);
  TS_DO(ts_settle(t, err));
  TS_DO(ts_comm_bcast(t->control, name, sizeof name, 0));
  return *name ? ts_settle(t, ts_str_append(path, "%s", name)) : TS_OK;
}

ts_err ts_trainer_init_path(ts_trainer *t, ts_str *path) {
  const char *from = t->config->checkpoint.init_from;
  if (!*from) return TS_OK;
  int64_t folder = t->rank == 0 && ts_file_is_folder(from);
  TS_DO(ts_comm_bcast(t->control, &folder, sizeof folder, 0));
  if (!folder) return ts_settle(t, ts_str_append(path, "%s", from));
  TS_DO(find_tensors(t, path, from));
  if (path->text) return TS_OK;
  TS_DO(ts_ckpt_newest(path, from, NULL, t->control));
  return ts_settle(
      t, path->text
             ? TS_OK
             : ts_fail(TS_ERR_CKPT,
                       "checkpoint.init_from: %s holds no checkpoint", from));
}

static ts_err report(const ts_matching *m, int64_t step, const char *missing,
                     const ts_listing *left) {
  if (m->here->checkpoint.init_state)
    ts_info(
        "goes on from step %lld of %s with this data, from its first sample",
        (long long)step, m->path);
  else
    ts_info("initial weights from %s", m->path);
  if (m->matched.n_bytes)
    ts_note("rows by word: that file has %s; rows of other words are drawn "
            "from the seed",
            m->matched.text);
  if (missing && m->here->checkpoint.init_state)
    ts_note("not in that file: weights are drawn from the seed, and state of "
            "optimizers begins anew: %s",
            missing);
  else if (missing)
    ts_note("not in that file, drawn from the seed: %s", missing);
  if (left->n)
    ts_note("%lld tensors of that file are not of the model and were left out: "
            "%s",
            (long long)left->n, left->text.text);
  return note_by_number(m, missing);
}

ts_err ts_trainer_init_from(ts_trainer *t, const ts_source *train,
                            const char *path) {
  ts_err err = TS_OK;
  ts_ckpt ckpt = {0};
  ts_str missing = {0};
  ts_listing left = {0};
  const bool state = t->config->checkpoint.init_state;
  ts_matching m = {.path = path, .train = train, .here = t->config};
  TS_TRY(ts_trainer_describe_weights(t, &ckpt, state));
  TS_TRY(ts_settle(t, match_words(&m, &ckpt)));
  if (state) TS_TRY(ts_settle(t, ts_state_move_means(t, TS_MEANS_BEGIN)));
  ts_state_ids_may_lack(&ckpt);
  if (ts_path_is_safetensors(path) && ckpt.arrived)
    TS_THROW(TS_ERR_DECK,
             "checkpoint.init_from: %s: such a file has rows by number, and "
             "rows = \"dynamic\" go by ids",
             path);
  if (ts_path_is_safetensors(path))
    TS_TRY(ts_ckpt_load_tensors(&ckpt, path, &missing, &left, t->control));
  else
    TS_TRY(ts_ckpt_load(&ckpt, path, true, &missing, t->control));
  TS_TRY(ts_state_ids_take(t, &ckpt, !state));
  TS_TRY(ts_settle(t, ts_ebc_reload(t->ebc)));
  ts_parallel_touch(t->dense);
  if (state) {
    TS_TRY(ts_settle(t, ts_state_look_averages(t, &ckpt, path)));
    t->step = ts_state_step(&ckpt);
    if (t->step < 0)
      TS_THROW(TS_ERR_CKPT, "%s: the checkpoint is of a step below 0", path);
  } else {
    TS_TRY(
        ts_settle(t, ts_parallel_start_averages(t->dense, NULL, t->compute)));
  }
  TS_TRY(ts_settle(t, report(&m, t->step, missing.text, &left)));
done:
  matching_reset(&m);
  ts_ckpt_reset(&ckpt);
  ts_str_reset(&missing);
  ts_str_reset(&left.text);
  return err;
}
