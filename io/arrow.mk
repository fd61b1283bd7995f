# Arrow's C++ library is met in one file, where it is there.
EXTRA_DIST += io/parquet.cc io/parquet_none.c
arrow_objects =
if HAVE_ARROW
arrow_objects += io/parquet.o
else
tessera_sources += io/parquet_none.c
endif
io/parquet.o: io/parquet.cc
	@$(MKDIR_P) $(@D)
	$(AM_V_CXX)$(CXX) $(CXXFLAGS) -I. $(AM_CPPFLAGS) $(ARROW_CXXFLAGS) \
	  -MD -MP -MF $(@:.o=.d) -c -o $@ $(srcdir)/io/parquet.cc
-include $(arrow_objects:.o=.d)
MOSTLYCLEANFILES += io/parquet.o io/parquet.d
