# Arrow's C++ library is met in one file, which the program loads where it is
# wanted: a module of its own, so that nothing else needs that library.
tessera_sources += io/parquet_load.c
EXTRA_DIST += io/parquet.cc
arrow_modules =
parquet_flags = -DTS_PARQUET_DIR='"$(parquetdir)"'
if HAVE_ARROW
parquet_flags += -DTS_PARQUET_BUILT=1
arrow_modules += io/parquet.so
install_local += install-parquet
else
parquet_flags += -DTS_PARQUET_BUILT=0
endif
uninstall_local += uninstall-parquet
# Sanitizers watch our side; what types the library's objects are of is its own.
arrow_sanitize = $(if $(findstring undefined,$(TS_SANITIZE)),-fno-sanitize=vptr)
io/parquet.so: io/parquet.cc
	@$(MKDIR_P) $(@D)
	$(AM_V_CXX)$(CXX) $(CXXFLAGS) $(TS_SANITIZE) $(arrow_sanitize) -fPIC -I. $(AM_CPPFLAGS) $(ARROW_CXXFLAGS) \
	  -MD -MP -MF io/parquet.d -shared -o $@ $(srcdir)/io/parquet.cc $(ARROW_LIBS)
-include io/parquet.d
# Where the program looks for it, whatever libdir and bindir are.
parquetdir = $(exec_prefix)/lib/tessera
io/parquet_load.$(OBJEXT) fuzz/io/parquet_load.o: AM_CPPFLAGS += $(parquet_flags)
io/parquet_load.$(OBJEXT): Makefile
install-parquet: io/parquet.so
	$(MKDIR_P) "$(DESTDIR)$(parquetdir)" && $(INSTALL_DATA) io/parquet.so "$(DESTDIR)$(parquetdir)"
uninstall-parquet:
	rm -f "$(DESTDIR)$(parquetdir)/parquet.so"
	test ! -d "$(DESTDIR)$(parquetdir)" || rmdir "$(DESTDIR)$(parquetdir)" 2> /dev/null || :
MOSTLYCLEANFILES += io/parquet.so io/parquet.d
