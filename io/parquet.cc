// parquet.cc - Parquet and Arrow's own files, by Apache Arrow's C++ library.
#include "io/parquet.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

// Calls that the library marks as old are there in its older releases, too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using arrow::Status;

struct ts_parquet {
  std::shared_ptr<arrow::io::ReadableFile> file;
  std::unique_ptr<parquet::arrow::FileReader> reader;  // NULL: Arrow's own
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> batches;
  std::vector<int> included;  // that BATCHES has, in order
  std::vector<int64_t> rows;  // of each group
  std::vector<std::shared_ptr<arrow::RecordBatch>> pieces;  // to be taken
  ArrowSchema schema;
};

struct ts_parquet_out {
  std::shared_ptr<arrow::io::FileOutputStream> file;
  std::shared_ptr<arrow::Schema> schema;
  std::unique_ptr<parquet::arrow::FileWriter> writer;  // NULL: Arrow's own
  std::shared_ptr<arrow::ipc::RecordBatchWriter> batches;
};

namespace {

// One line, without what a terminal would take for its own.
void say(char *why, const char *text) noexcept {
  snprintf(why, TS_PARQUET_WHY, "%s", text);
  size_t n = strlen(why);
  for (char *c = why; *c; c++)
    if (static_cast<unsigned char>(*c) < ' ' || *c == 127) *c = ' ';
  while (n && why[n - 1] == ' ') why[--n] = '\0';
}

// Runs CALL, whose status, or what it throws, goes to WHY.
template <typename Call>
bool guarded(char *why, Call call) noexcept {
  try {
    const Status status = call();
    if (status.ok()) return true;
    const auto detail = status.detail();  // the system's reason
    say(why, (status.message() + (detail ? ": " + detail->ToString() : ""))
                 .c_str());
  } catch (const std::exception &e) {
    say(why, e.what());
  } catch (...) {
    say(why, "the library fails without a word");
  }
  return false;
}

Status open_batches(ts_parquet *p, const std::vector<int> &included) {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.included_fields = included;
  options.use_threads = false;
  ARROW_ASSIGN_OR_RAISE(
      p->batches, arrow::ipc::RecordBatchFileReader::Open(p->file, options));
  p->included = included;
  return Status::OK();
}

// How many rows a batch has is known by reading one of its columns.
Status open_own(ts_parquet *p) {
  ARROW_RETURN_NOT_OK(open_batches(p, {}));
  ARROW_RETURN_NOT_OK(arrow::ExportSchema(*p->batches->schema(), &p->schema));
  if (p->schema.n_children < 1) return Status::Invalid("it has no columns");
  ARROW_RETURN_NOT_OK(open_batches(p, {0}));
  for (int g = 0; g < p->batches->num_record_batches(); g++) {
    ARROW_ASSIGN_OR_RAISE(auto batch, p->batches->ReadRecordBatch(g));
    p->rows.push_back(batch->num_rows());
  }
  return Status::OK();
}

// Texts that the file has as words of a dictionary stay that: its pages say so
// for the first group.
bool is_of_words(const parquet::FileMetaData &metadata, int column) {
  const auto *descr = metadata.schema()->Column(column);
  if (descr->physical_type() != parquet::Type::BYTE_ARRAY ||
      descr->max_repetition_level() > 0 || metadata.num_row_groups() < 1)
    return false;
  const auto chunk = metadata.RowGroup(0)->ColumnChunk(column);
  if (!chunk->has_dictionary_page()) return false;
  for (const auto &page : chunk->encoding_stats())
    if ((page.page_type == parquet::PageType::DATA_PAGE ||
         page.page_type == parquet::PageType::DATA_PAGE_V2) &&
        page.encoding != parquet::Encoding::RLE_DICTIONARY &&
        page.encoding != parquet::Encoding::PLAIN_DICTIONARY)
      return false;
  return true;
}

Status open_parquet(ts_parquet *p, bool parallel) {
  parquet::arrow::FileReaderBuilder builder;
  parquet::ArrowReaderProperties properties(parallel);
  properties.set_pre_buffer(false);
  // Pages come through a small window, not whole columns at once.
  parquet::ReaderProperties pages;
  pages.enable_buffered_stream();
  pages.set_buffer_size(1 << 20);
  ARROW_RETURN_NOT_OK(builder.Open(p->file, pages));
  const auto head = builder.raw_reader()->metadata();
  for (int c = 0; c < head->num_columns(); c++)
    properties.set_read_dictionary(c, is_of_words(*head, c));
  builder.properties(properties);
  ARROW_RETURN_NOT_OK(builder.Build(&p->reader));
  const auto metadata = p->reader->parquet_reader()->metadata();
  for (int g = 0; g < metadata->num_row_groups(); g++) {
    const int64_t rows = metadata->RowGroup(g)->num_rows();
    if (rows < 0) return Status::Invalid("a row group has ", rows, " rows");
    p->rows.push_back(rows);
  }
  std::shared_ptr<arrow::Schema> schema;
  ARROW_RETURN_NOT_OK(p->reader->GetSchema(&schema));
  return arrow::ExportSchema(*schema, &p->schema);
}

Status open(ts_parquet *p, const char *path, int32_t threads) {
  if (threads > 1)
    ARROW_RETURN_NOT_OK(arrow::SetCpuThreadPoolCapacity(threads));
  ARROW_ASSIGN_OR_RAISE(p->file, arrow::io::ReadableFile::Open(path));
  ARROW_ASSIGN_OR_RAISE(auto head, p->file->ReadAt(0, 6));
  const std::string first(reinterpret_cast<const char *>(head->data()),
                          static_cast<size_t>(head->size()));
  return first == "ARROW1" ? open_own(p) : open_parquet(p, threads != 1);
}

// The leaves of a column, which the file has one by one.
void add_leaves(std::vector<int> *leaves,
                const parquet::arrow::SchemaField &field) {
  if (field.is_leaf()) leaves->push_back(field.column_index);
  for (const auto &child : field.children) add_leaves(leaves, child);
}

// Indices of dictionaries, which the library takes from the file as they are.
Status check_words(const std::shared_ptr<arrow::ArrayData> &data) {
  if (data->dictionary) {
    const arrow::DictionaryArray of(data);
    return arrow::DictionaryArray::FromArrays(of.type(), of.indices(),
                                              of.dictionary())
        .status();
  }
  for (const auto &child : data->child_data)
    ARROW_RETURN_NOT_OK(check_words(child));
  return Status::OK();
}

Status check_words(const arrow::Table &table) {
  for (int c = 0; c < table.num_columns(); c++)
    for (const auto &chunk : table.column(c)->chunks()) {
      ARROW_RETURN_NOT_OK(chunk->Validate());
      const Status status = check_words(chunk->data());
      if (!status.ok())
        return Status::Invalid("column \"", table.field(c)->name(),
                               "\" is damaged: it has words that its "
                               "dictionary lacks");
    }
  return Status::OK();
}

// Those of COLUMNS of GROUP, cut where any column is; the library gives them in
// the file's order.
Status read_parquet(ts_parquet *p, int group, const std::vector<int> &columns,
                    int64_t most) {
  std::vector<int> leaves;
  for (const int c : columns)
    add_leaves(&leaves, p->reader->manifest().schema_fields.at(
                            static_cast<size_t>(c)));
  std::shared_ptr<arrow::Table> table;
  ARROW_RETURN_NOT_OK(p->reader->ReadRowGroup(group, leaves, &table));
  ARROW_RETURN_NOT_OK(table->Validate());
  ARROW_RETURN_NOT_OK(check_words(*table));
  arrow::TableBatchReader pieces(*table);
  pieces.set_chunksize(most);
  return pieces.ToRecordBatches().Value(&p->pieces);
}

Status read_own(ts_parquet *p, int group, const std::vector<int> &columns) {
  if (columns != p->included) ARROW_RETURN_NOT_OK(open_batches(p, columns));
  ARROW_ASSIGN_OR_RAISE(auto batch, p->batches->ReadRecordBatch(group));
  ARROW_RETURN_NOT_OK(batch->ValidateFull());
  p->pieces = {batch};
  return Status::OK();
}

Status read(ts_parquet *p, int group, const int32_t *columns, int32_t n,
            int64_t most, int32_t *n_pieces) {
  std::vector<int> sorted(columns, columns + n), order;
  std::sort(sorted.begin(), sorted.end());
  p->pieces.clear();
  ARROW_RETURN_NOT_OK(p->reader ? read_parquet(p, group, sorted, most)
                                : read_own(p, group, sorted));
  for (int32_t i = 0; i < n; i++)
    order.push_back(static_cast<int>(
        std::lower_bound(sorted.begin(), sorted.end(), columns[i]) -
        sorted.begin()));
  int64_t found = 0;
  const int64_t rows = p->rows.at(static_cast<size_t>(group));
  for (auto &piece : p->pieces) {
    found += piece->num_rows();
    ARROW_ASSIGN_OR_RAISE(piece, piece->SelectColumns(order));
  }
  if (found != rows)
    return Status::Invalid(found, " rows where ", rows, " are to be");
  *n_pieces = static_cast<int32_t>(p->pieces.size());
  return Status::OK();
}

Status take(ts_parquet *p, int32_t k, ArrowArray *to) {
  const auto piece = std::move(p->pieces.at(static_cast<size_t>(k)));
  return arrow::ExportRecordBatch(*piece, to);
}

Status create(ts_parquet_out *out, int fd, bool arrow, ArrowSchema *schema) {
  ARROW_ASSIGN_OR_RAISE(out->file, arrow::io::FileOutputStream::Open(fd));
  ARROW_ASSIGN_OR_RAISE(out->schema, arrow::ImportSchema(schema));
  if (arrow)
    return arrow::ipc::MakeFileWriter(out->file, out->schema)
        .Value(&out->batches);
  auto properties = parquet::WriterProperties::Builder()
                        .compression(parquet::Compression::SNAPPY)
                        ->build();
  ARROW_ASSIGN_OR_RAISE(
      out->writer, parquet::arrow::FileWriter::Open(
                       *out->schema, arrow::default_memory_pool(), out->file,
                       properties));
  return Status::OK();
}

void module_close(ts_parquet *p) {
  if (p && p->schema.release) p->schema.release(&p->schema);
  delete p;
}

bool module_open(ts_parquet **out, const char *path, int32_t threads,
                 char *why) {
  ts_parquet *p = new (std::nothrow) ts_parquet();
  const bool good = guarded(why, [&] {
    return p ? open(p, path, threads) : Status::OutOfMemory("out of memory");
  });
  if (good)
    *out = p;
  else
    module_close(p);
  return good;
}

const ArrowSchema *module_schema(const ts_parquet *p) {
  return &p->schema;
}

int32_t module_n_groups(const ts_parquet *p) {
  return static_cast<int32_t>(p->rows.size());
}

int64_t module_rows(const ts_parquet *p, int32_t group) {
  return p->rows[static_cast<size_t>(group)];
}

bool module_read(ts_parquet *p, int32_t group, const int32_t *columns,
                 int32_t n, int64_t most, int32_t *n_pieces, char *why) {
  return guarded(why,
                 [&] { return read(p, group, columns, n, most, n_pieces); });
}

bool module_take(ts_parquet *p, int32_t k, ArrowArray *to, char *why) {
  return guarded(why, [&] { return take(p, k, to); });
}

bool module_create(ts_parquet_out **to, int fd, bool arrow,
                   ArrowSchema *schema, char *why) {
  ts_parquet_out *out = new (std::nothrow) ts_parquet_out();
  const bool good = guarded(why, [&] {
    return out ? create(out, fd, arrow, schema)
               : Status::OutOfMemory("out of memory");
  });
  if (!out) close(fd);
  if (schema->release) schema->release(schema);
  if (good)
    *to = out;
  else
    delete out;
  return good;
}

bool module_write(ts_parquet_out *out, ArrowArray *rows, char *why) {
  return guarded(why, [&] {
    ARROW_ASSIGN_OR_RAISE(auto batch,
                          arrow::ImportRecordBatch(rows, out->schema));
    if (out->batches) return out->batches->WriteRecordBatch(*batch);
    ARROW_ASSIGN_OR_RAISE(auto table,
                          arrow::Table::FromRecordBatches({batch}));
    return out->writer->WriteTable(*table, std::max<int64_t>(
                                               table->num_rows(), 1));
  });
}

bool module_finish(ts_parquet_out *out, char *why) {
  const bool good = !out || guarded(why, [&] {
    ARROW_RETURN_NOT_OK(out->batches ? out->batches->Close()
                                     : out->writer->Close());
    return out->file->Close();
  });
  delete out;
  return good;
}

}  // namespace

extern "C" __attribute__((visibility("default")))
const ts_parquet_module ts_parquet_this = {
    sizeof(ts_parquet_module), TS_PARQUET_VERSION,
    module_open, module_close, module_schema, module_n_groups, module_rows,
    module_read, module_take, module_create, module_write, module_finish};
