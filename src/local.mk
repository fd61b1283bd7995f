# Each folder of src/ lists its own files.
include src/base/local.mk
include src/runtime/local.mk
include src/sparse/local.mk
include src/dense/local.mk
include src/shard/local.mk
include src/model/local.mk
include src/train/local.mk
include src/serve/local.mk
include src/commands/local.mk
tessera_sources += src/kernel_table.h

# Headers for programs of one's own: all of src/ and io/ but the commands, what
# is compiled once for each instruction set, lines of the deck's table, and
# *_impl.h, which are a folder's own, except three that others here include.
# They include each other by the paths that they have here.
public_headers = $(sort $(filter-out cuda/% src/commands/% %_body.h \
  %/kernels_version.h %/lookup_ones.h io/schema_% %_impl.h,$(filter %.h,$(tessera_sources)))) \
  src/dense/parallel_impl.h src/shard/sharding_impl.h io/dataset_impl.h
pkgconfigdir = $(libdir)/pkgconfig
EXTRA_DIST += src/tessera.pc.in
install_local += install-headers install-pc
uninstall_local += uninstall-headers uninstall-pc
install-headers:
	for h in $(public_headers); do d=$${h#src/}; d="$(DESTDIR)$(pkgincludedir)/$${d%/*}"; \
	  case $$h in src/*/* | io/*) ;; *) d="$(DESTDIR)$(pkgincludedir)" ;; esac; \
	  $(MKDIR_P) "$$d" && $(INSTALL_DATA) $(srcdir)/$$h "$$d" || exit 1; done
uninstall-headers:
	for h in $(public_headers); do rm -f "$(DESTDIR)$(pkgincludedir)/$${h#src/}"; done
install-pc:
	$(MKDIR_P) "$(DESTDIR)$(pkgconfigdir)"
	f="$(DESTDIR)$(pkgconfigdir)/tessera.pc"; \
	  $(fill) $(srcdir)/src/tessera.pc.in > "$$f" && chmod 644 "$$f"
uninstall-pc:
	rm -f "$(DESTDIR)$(pkgconfigdir)/tessera.pc"
