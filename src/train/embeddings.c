/* embeddings.c - the rows of tables out of a checkpoint, with their words.
 *
 * No tables are built: each rank reads its part of a block of rows from the
 * file, block after block, so tables may be larger than all memory. */
#include "train/embeddings.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/compress.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/deck.h"
#include "io/sheet.h"
#include "train/embeddings_impl.h"
#include "train/forward.h"
#include "train/rows.h"
#include "train/state_ids.h"

enum { BLOCK_BYTES = 32 << 20 };

typedef struct ts_embeddings {
  ts_trainer *t;
  const char *out;
  const ts_strings *features;
  ts_embedding *of; /* (n) */
  int32_t n;
  ts_sheet_column *columns; /* (2 n) */
  const void **data;        /* (2 n) of a block */
  ts_vocabularies *known;   /* has the words, or NULL */
  int64_t pass;             /* the checkpoint's last */
  bool *is_auto;            /* (tables) their rows are the checkpoint's */
  ts_err final;             /* of a checkpoint after which none is tried */
  ts_sheet *rows;
  int file; /* the checkpoint at hand, or -1 */
} ts_embeddings;

/* ---- words --------------------------------------------------------------- */

/* Row 0 is for what is none of the words. */
static ts_err find_words(ts_embedding *e, const ts_vocabularies *known,
                         const char *path) {
  if (!ts_vocabularies_words(known, e->number, &e->words)) return TS_OK;
  if (!ts_table_is_dynamic(e->table) && e->words.n >= e->table->rows)
    return ts_fail(TS_ERR_CKPT,
                   "%s: feature %s has %lld words, table %s %lld rows", path,
                   e->feature, (long long)e->words.n, e->table->name,
                   (long long)e->table->rows);
  e->has_words = true;
  if (!ts_table_is_dynamic(e->table)) e->n = e->words.n + 1;
  for (int64_t i = 0; i < e->words.n; i++) {
    const int32_t bytes = (int32_t)strlen(ts_words_at(&e->words, i));
    if (bytes > e->width) e->width = bytes;
  }
  return TS_OK;
}

/* ---- what is asked for --------------------------------------------------- */

static ts_err unknown(const ts_config *c, const char *name) {
  ts_err err = TS_OK;
  ts_str names = {0};
  for (int32_t k = 0; k < ts_feature_count(c); k++) {
    const char *feature;
    (void)ts_feature_table(c, k, &feature);
    if (ts_feature_find(c, feature) != k) continue;
    TS_TRY(ts_str_append(&names, "%s%s", k ? ", " : "", feature));
  }
  TS_THROW(TS_ERR_USAGE, "--embeddings: no feature \"%s\"; there are: %.1000s",
           name, names.text);
done:
  ts_str_reset(&names);
  return err;
}

static ts_err find_feature(ts_embedding *e, const ts_config *c,
                           const char *name) {
  const int32_t k = ts_feature_find(c, name);
  if (k < 0) return unknown(c, name);
  const ts_table_config *t = ts_feature_table(c, k, NULL);
  if (t->whole)
    return ts_fail(
        TS_ERR_USAGE,
        "--embeddings: feature %s is of table %s, which has compress "
        "and so no row of an id's own; `tessera export` writes the "
        "rows of its parts",
        name, t->whole->name);
  *e = (ts_embedding){
      .feature = name, .table = t, .number = k, .n = t->rows, .width = 1};
  snprintf(e->group, sizeof e->group, "embeddings/%.480s", name);
  return TS_OK;
}

static ts_err find_features(ts_embeddings *x) {
  const ts_strings *features = x->features;
  if (features->n > 1 && ts_sheet_format_of(x->out) != TS_SHEET_HDF5)
    return ts_fail(TS_ERR_USAGE,
                   "--embeddings: a file of this format takes one feature, .h5 "
                   "several");
  TS_DO(ts_mem_many(x->of, features->n, MISC));
  TS_DO(ts_mem_many(x->columns, 2 * features->n, MISC));
  TS_DO(ts_mem_many(x->data, 2 * features->n, MISC));
  x->n = features->n;
  for (int32_t i = 0; i < x->n; i++)
    TS_DO(find_feature(&x->of[i], x->t->config, features->item[i]));
  return TS_OK;
}

static ts_err find_rows(ts_embeddings *x, const ts_ckpt *ckpt,
                        const char *path) {
  const ts_ckpt_value *state = ts_ckpt_value_of(ckpt, "loader/state");
  if (state && state->dtype == TS_U8 && state->n)
    TS_DO(ts_vocabularies_recall(&x->known, x->t->config, state->ptr));
  for (int32_t i = 0; i < x->n; i++) {
    ts_embedding *e = &x->of[i];
    const bool dynamic = ts_table_is_dynamic(e->table);
    if (dynamic) TS_DO(ts_ids_of_file(&e->n, ckpt, e->table->name, path));
    TS_DO(find_words(e, x->known, path));
    const bool words = e->has_words;
    x->columns[2 * i] =
        (ts_sheet_column){.name = words     ? "words"
                                  : dynamic ? "ids"
                                            : "rows",
                          .head = words     ? "word"
                                  : dynamic ? "id"
                                            : "row",
                          .group = e->group,
                          .kind = words ? TS_SHEET_TEXT : TS_SHEET_I64,
                          .width = e->width,
                          .n = e->n,
                          .n_cells = 1};
    x->columns[2 * i + 1] =
        (ts_sheet_column){.name = "vectors",
                          .head = e->table->dim > 1 ? "e" : "e0",
                          .group = e->group,
                          .kind = TS_SHEET_F32,
                          .digits = 9,
                          .n = e->n,
                          .n_cells = e->table->dim};
  }
  return TS_OK;
}

/* ---- rows ---------------------------------------------------------------- */

static void name_rows(const ts_embedding *e, ts_embedding_part *p) {
  for (int64_t i = 0; i < p->n; i++) {
    const int64_t row = p->ids ? p->ids[i] : p->first + i;
    if (!e->has_words) {
      memcpy(p->names + 8 * i, &row, sizeof row);
      continue;
    }
    char *to = p->names + i * e->width;
    memset(to, 0, (size_t)e->width);
    /* A quote in quotes is kept as CSV has it, twice. */
    const bool known = row > 0 && row <= e->words.n;
    for (const char *w = known ? ts_words_at(&e->words, row - 1) : ""; *w;
         w++) {
      *to++ = *w;
      w += w[0] == '"' && w[1] == '"';
    }
  }
}

static ts_err take_room(ts_embedding_part *p, int64_t n, int64_t dim) {
  TS_DO(ts_mem_many(p->mean, n * dim, CHECKPOINT));
  return ts_mem_many(p->pass, n, CHECKPOINT);
}

static ts_err write_feature(ts_embeddings *x, int32_t i, const char *path) {
  ts_err err = TS_OK;
  const ts_trainer *t = x->t;
  const ts_embedding *e = &x->of[i];
  const int64_t cell = e->has_words ? e->width : 8;
  const int64_t fit = BLOCK_BYTES / (4 * (int64_t)e->table->dim + cell);
  const int64_t each = fit > 0 ? fit : 1;
  ts_embedding_part p = {0};
  TS_TRY(ts_agree(t->control, ts_mem_array(&p.names, each, (size_t)cell,
                                           TS_TAG_CHECKPOINT)));
  TS_TRY(ts_agree(t->control, ts_mem_array(&p.vectors, each * e->table->dim,
                                           sizeof(float), TS_TAG_CHECKPOINT)));
  if (ts_table_is_dynamic(e->table))
    TS_TRY(ts_agree(t->control, ts_mem_many(p.ids, each, CHECKPOINT)));
  if (e->table->ema)
    TS_TRY(ts_agree(t->control, take_room(&p, each, e->table->dim)));
  for (int32_t k = 0; k < 2 * x->n; k++) x->data[k] = NULL;
  x->data[2 * i] = p.names;
  x->data[2 * i + 1] = p.vectors;
  for (int64_t at = 0; at < e->n; at += each * t->n_ranks) {
    p.first = at + t->rank * each;
    if (p.first > e->n) p.first = e->n;
    p.n = e->n - p.first < each ? e->n - p.first : each;
    TS_TRY(ts_embedding_read(x->t, e, &p, path, x->pass));
    name_rows(e, &p);
    TS_TRY(ts_sheet_write(x->rows, p.first, p.n, x->data));
    ts_watch_beat();
  }
done:
  ts_mem_free_all(p.names, p.ids, p.vectors, p.mean, p.pass);
  return err;
}

/* ---- all ----------------------------------------------------------------- */

static void forget(ts_embeddings *x) {
  ts_vocabularies_destroy(x->known);
  ts_mem_free_all(x->of, x->columns, x->data);
  x->known = NULL;
  x->of = NULL;
  x->columns = NULL;
  x->data = NULL;
}

/* As before the first checkpoint that was tried. */
static void begin(ts_embeddings *x) {
  const ts_config *c = x->t->config;
  forget(x);
  for (int32_t i = 0; i < c->n_tables; i++)
    if (x->is_auto[i]) ts_table_ids_are(&c->tables[i], TS_ROWS_AUTO);
}

/* Another file is in PATH's place than WAS, which is open: blocks are of two.
 */
static ts_err check_still(const char *path, int was) {
  struct stat open, now;
  if (fstat(was, &open) != 0 || stat(path, &now) != 0 ||
      (now.st_dev == open.st_dev && now.st_ino == open.st_ino))
    return TS_OK;
  return ts_fail(TS_ERR_CKPT, "%s: was written anew while it was read: again",
                 path);
}

static ts_err write_rows(ts_embeddings *x, const char *path) {
  ts_err err = TS_OK;
  ts_comm *comm = x->t->control;
  TS_DO(ts_sheet_create(&x->rows, x->out, 0, x->columns, 2 * x->n, comm));
  for (int32_t i = 0; err == TS_OK && i < x->n; i++)
    err = write_feature(x, i, path);
  if (err == TS_OK) err = ts_agree(comm, check_still(path, x->file));
  err = ts_sheet_finish(x->rows, err);
  /* Standard output can't be taken back: no other checkpoint is tried. */
  if (strcmp(x->out, "-") != 0) return err;
  x->final = err;
  return TS_OK;
}

/* Writes the embeddings that checkpoint PATH has. */
static ts_err write_of(void *arg, const char *path, bool mirrored) {
  ts_err err = TS_OK;
  ts_embeddings *x = arg;
  ts_comm *comm = x->t->control;
  ts_ckpt values = {0};
  (void)mirrored;
  x->file = -1;
  begin(x);
  if (ts_file_is_same(x->out, path))
    err = ts_fail(TS_ERR_USAGE, "--out %s is a file to read", x->out);
  TS_TRY(ts_settle(x->t, err));
  x->file = ts_file_open(path, O_RDONLY | O_NONBLOCK);
  if (x->file < 0) err = ts_fail_errno(TS_ERR_CKPT, path);
  TS_TRY(ts_agree(comm, err));
  TS_TRY(ts_agree(comm, ts_ckpt_peek(&values, path)));
  TS_TRY(ts_trainer_rows_of(x->t, path));
  TS_TRY(ts_settle(x->t, find_features(x)));
  TS_TRY(ts_agree(comm, find_rows(x, &values, path)));
  x->pass = values.step;
  TS_TRY(write_rows(x, path));
  if (x->final != TS_OK) goto done;
  for (int32_t i = 0; i < x->n; i++)
    ts_info("%s: %lld %s of table %s, step %lld of %s", x->of[i].feature,
            (long long)x->of[i].n, x->of[i].has_words ? "words" : "rows",
            x->of[i].table->name, (long long)values.step, path);
  ts_info("embeddings: %s", x->out);
done:
  if (x->file >= 0) close(x->file);
  ts_ckpt_reset(&values);
  return err;
}

static ts_err write_all(ts_embeddings *x, const char *given) {
  ts_str path = {0};
  const char *named;
  const ts_config *c = x->t->config;
  TS_DO(ts_agree(x->t->control, ts_mem_many(x->is_auto, c->n_tables, MISC)));
  for (int32_t i = 0; i < c->n_tables; i++)
    x->is_auto[i] = c->tables[i].rows == TS_ROWS_AUTO;
  ts_err err =
      ts_agree(x->t->control, ts_forward_checkpoint(&named, &path, c, given));
  if (err == TS_OK && named)
    err = write_of(x, named, false);
  else if (err == TS_OK)
    err = ts_ckpt_use_newest(&path, c->checkpoint.dir, ts_mirror_of(c),
                             write_of, x, x->t->control);
  if (err == TS_OK) err = x->final;
  if (err == TS_OK && !named && !path.text) err = ts_forward_none(c);
  ts_str_reset(&path);
  return err;
}

ts_err ts_run_embeddings(const char *deck, const char *const *sets, int n_sets,
                         const char *checkpoint, const char *out,
                         const ts_strings *features) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_embeddings x = {.out = out, .features = features};
  TS_TRY(ts_watch_start());
  TS_TRY(ts_deck_read_all(&c, deck, sets, n_sets));
  TS_TRY(ts_forward_check_out(c, out));
  TS_TRY(ts_trainer_start(&x.t, c, false));
  TS_TRY(ts_settle(x.t, write_all(&x, checkpoint)));
done:
  ts_settle_own(err);
  forget(&x);
  ts_mem_free(x.is_auto);
  ts_trainer_destroy(x.t);
  ts_watch_stop();
  ts_deck_destroy(c);
  return err;
}
