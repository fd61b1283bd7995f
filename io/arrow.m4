# arrow.m4 - Apache Arrow's C++ library with Parquet, optional.
#
# --with-arrow=DIR|python|no|auto.  DIR: an installation, or the folder of an
# installed pyarrow, whose wheel has headers and libraries; python: that of the
# python3 in PATH; auto: pkg-config, then python.  Sets ARROW_CXXFLAGS,
# ARROW_LIBS and the conditional HAVE_ARROW, for a module that the program loads
# (io/arrow.mk).
AC_DEFUN([TS_LIB_ARROW], [
AC_ARG_WITH([arrow],
  [AS_HELP_STRING([--with-arrow@<:@=DIR|python|no|auto@:>@],
    [Apache Arrow for Parquet: DIR may be that of pyarrow (auto)])], [],
  [with_arrow=auto])
ts_arrow_found="no: data and predictions are not read or written as Parquet"
ARROW_CXXFLAGS= ARROW_LIBS= ts_arrow=no
AS_CASE([$with_arrow], [no], [],
  [auto|yes], [
    PKG_CHECK_MODULES([ARROW_PC], [arrow parquet],
      [ARROW_LIBS=$ARROW_PC_LIBS ts_arrow=pkg-config
       for ts_flag in $ARROW_PC_CFLAGS; do
         TS_ARROW_FLAG([$ts_flag])
       done],
      [TS_ARROW_PYTHON])],
  [python], [TS_ARROW_PYTHON],
  [ts_arrow_dir=`cd "$with_arrow" 2>/dev/null && pwd`
   AS_IF([test -z "$ts_arrow_dir"], [AC_MSG_ERROR([--with-arrow: $with_arrow is no folder])])
   TS_ARROW_IN([$ts_arrow_dir])])
AS_IF([test "x$ts_arrow" != xno && test "$ts_have_cxx" = yes], [
  AC_MSG_CHECKING([whether C++20 and Parquet of $ts_arrow work])
  AC_LANG_PUSH([C++])
  ts_saved_cxxflags=$CXXFLAGS ts_saved_libs=$LIBS
  ARROW_CXXFLAGS="-std=c++20 $ARROW_CXXFLAGS"
  CXXFLAGS="$CXXFLAGS $ARROW_CXXFLAGS" LIBS="$ARROW_LIBS $LIBS"
  # What io/parquet.cc has, and calls that came, or changed, with releases.
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
arrow::Status use(std::shared_ptr<arrow::io::ReadableFile> in,
                  std::shared_ptr<arrow::io::FileOutputStream> out,
                  ArrowSchema *schema, ArrowArray *array) {
  ARROW_RETURN_NOT_OK(arrow::SetCpuThreadPoolCapacity(2));
  ARROW_ASSIGN_OR_RAISE(auto own, arrow::ipc::RecordBatchFileReader::Open(
      in, arrow::ipc::IpcReadOptions::Defaults()));
  parquet::arrow::FileReaderBuilder builder;
  ARROW_RETURN_NOT_OK(builder.Open(in));
  std::unique_ptr<parquet::arrow::FileReader> reader;
  ARROW_RETURN_NOT_OK(builder.Build(&reader));
  std::shared_ptr<arrow::Table> table;
  ARROW_RETURN_NOT_OK(reader->ReadRowGroup(0, {0}, &table));
  ARROW_ASSIGN_OR_RAISE(auto batches,
                        arrow::TableBatchReader(*table).ToRecordBatches());
  ARROW_ASSIGN_OR_RAISE(auto batch, batches.at(0)->SelectColumns({0}));
  ARROW_RETURN_NOT_OK(arrow::ExportRecordBatch(*batch, array, schema));
  ARROW_ASSIGN_OR_RAISE(auto writer, parquet::arrow::FileWriter::Open(
      *own->schema(), arrow::default_memory_pool(), out,
      parquet::WriterProperties::Builder().build()));
  return writer->Close();
}]],
    [[return use(nullptr, nullptr, nullptr, nullptr).ok();]])],
    [AC_MSG_RESULT([yes])
     ts_arrow_found=$ts_arrow],
    [AC_MSG_RESULT([no]); ts_arrow=no])
  CXXFLAGS=$ts_saved_cxxflags LIBS=$ts_saved_libs
  AC_LANG_POP([C++])
], [ts_arrow=no])
AS_IF([test "x$ts_arrow" = xno], [
  AS_CASE([$with_arrow], [no|auto], [],
    [AC_MSG_ERROR([Arrow was asked for, and there is none that works with a C++20 compiler (pip install pyarrow; --with-arrow=DIR)])])
  ARROW_CXXFLAGS= ARROW_LIBS=])
# The library's own words, as it is compiled: warnings are of our files alone.
AS_IF([test "x$enable_werror" = xyes && test "x$ts_arrow" != xno],
  [ARROW_CXXFLAGS="$ARROW_CXXFLAGS -Wall -Wextra -Werror"])
AC_SUBST([ARROW_CXXFLAGS])
AC_SUBST([ARROW_LIBS])
AM_CONDITIONAL([HAVE_ARROW], [test "x$ts_arrow" != xno])
])

# In the pyarrow of python3, where it has one.
AC_DEFUN([TS_ARROW_PYTHON], [
ts_arrow_dir=`python3 -c 'import os, pyarrow; print(os.path.dirname(pyarrow.__file__))' 2>/dev/null`
AS_IF([test -n "$ts_arrow_dir"], [TS_ARROW_IN([$ts_arrow_dir])])
])

# Appends a flag: headers are the system's, whose own folder stays where it is.
AC_DEFUN([TS_ARROW_FLAG], [
AS_CASE([$1],
  [-I/usr/include|-I/usr/include/], [],
  [-I*], [ts_word=$1; ARROW_CXXFLAGS="$ARROW_CXXFLAGS -isystem ${ts_word@%:@-I}"],
  [ARROW_CXXFLAGS="$ARROW_CXXFLAGS $1"])
])

# In a folder: include/, and libraries in lib/ or beside it, which wheels have
# by their versions only.
AC_DEFUN([TS_ARROW_IN], [
for ts_dir in "$1" "$1/lib64" "$1/lib"; do
  for ts_lib in "$ts_dir"/libarrow.so "$ts_dir"/libarrow.so.@<:@0-9@:>@*; do
    AS_IF([test "x$ts_arrow" = xno && test -f "$ts_lib"], [
      ts_version=${ts_lib#"$ts_dir"/libarrow.so}
      TS_ARROW_FLAG([-I$1/include])
      ARROW_LIBS="-L$ts_dir -Wl,-rpath,$ts_dir -l:libparquet.so$ts_version -l:libarrow.so$ts_version"
      ts_arrow=$1])
  done
done
])
