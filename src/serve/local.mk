tessera_sources += \
  src/serve/face.c \
  src/serve/face.h \
  src/serve/file.c \
  src/serve/file.h \
  src/serve/ids.c \
  src/serve/ids.h \
  src/serve/inputs.c \
  src/serve/inputs.h \
  src/serve/keys.c \
  src/serve/keys.h \
  src/serve/model.c \
  src/serve/rows.c \
  src/serve/rows.h \
  src/serve/rows_avx2.c \
  src/serve/rows_avx512.c \
  src/serve/rows_body.h \
  src/serve/rows_impl.h \
  src/serve/rows_ref.c \
  src/serve/scorer.c \
  src/serve/scorer.h \
  src/serve/state.c \
  src/serve/state.h \
  src/serve/state_impl.h \
  src/serve/state_keys.c \
  src/serve/tessera_serve.h \
  src/serve/write.c \
  src/serve/write_impl.h \
  src/serve/write_keys.c \
  src/serve/write_list.c \
  src/serve/write.h

# What others link to score by a file: these objects, and those of the program
# that they need, without MPI and HDF5.  alone.c has in the place of these what
# there is without other ranks and without data; backends.c has the host's
# kernels alone there.
serve_soname = libtessera_serve.so.1
# clang leaves what sanitizers call to the program that loads it.
serve_whole = $(if $(findstring -fsanitize,$(AM_CFLAGS)),,-Wl,-z,defs)
EXTRA_LIBRARIES = src/serve/libalone.a
src_serve_libalone_a_SOURCES = src/serve/alone.c src/backends.c
src_serve_libalone_a_CPPFLAGS = $(AM_CPPFLAGS) -DTS_ALONE
EXTRA_DIST += src/serve/serve.map src/serve/tessera_serve.pc.in
CLEANFILES += libtessera_serve.so $(serve_soname) src/serve/libalone.a
all-local: libtessera_serve.so
$(serve_soname): src/serve/libalone.a libtessera.a src/serve/serve.map
	$(AM_V_CCLD)$(CC) -shared -o $@ $(AM_CFLAGS) $(CFLAGS) $(LDFLAGS) \
	  -Wl,-soname,$@ -Wl,--version-script,$(srcdir)/src/serve/serve.map $(serve_whole) -Wl,-z,relro -Wl,-z,now \
	  -Wl,--as-needed -Wl,-u,tserve_open -Wl,--whole-archive src/serve/libalone.a \
	  -Wl,--no-whole-archive libtessera.a $(LIBS)
libtessera_serve.so: $(serve_soname)
	$(AM_V_at)ln -sf $(serve_soname) $@
install_local += install-serve
uninstall_local += uninstall-serve
install-serve: libtessera_serve.so
	$(MKDIR_P) "$(DESTDIR)$(libdir)" "$(DESTDIR)$(includedir)" "$(DESTDIR)$(pkgconfigdir)"
	$(INSTALL_PROGRAM) $(serve_soname) "$(DESTDIR)$(libdir)"
	ln -sf $(serve_soname) "$(DESTDIR)$(libdir)/libtessera_serve.so"
	$(INSTALL_DATA) $(srcdir)/src/serve/tessera_serve.h "$(DESTDIR)$(includedir)"
	f="$(DESTDIR)$(pkgconfigdir)/tessera_serve.pc"; \
	  $(fill) $(srcdir)/src/serve/tessera_serve.pc.in > "$$f" && chmod 644 "$$f"
uninstall-serve:
	rm -f "$(DESTDIR)$(libdir)/$(serve_soname)" "$(DESTDIR)$(libdir)/libtessera_serve.so" \
	  "$(DESTDIR)$(includedir)/tessera_serve.h" "$(DESTDIR)$(pkgconfigdir)/tessera_serve.pc"
