# Jobs of users, and a module file.  What builds, checks and measures the
# program needs a clone, and stays there.
jobsdir = $(pkgdatadir)/jobs
slurmdir = $(jobsdir)/slurm
jobs_SCRIPTS = jobs/from_torch jobs/join-ml100k
slurm_jobs = cluster.env gpus.sbatch nodes.sbatch one-node.sbatch run.sh \
  sweep.sbatch tune.sbatch

# Where modules are looked for is a cluster's own matter: make install
# modulefilesdir=DIR puts it there.
modulefilesdir = $(pkgdatadir)/modulefiles

# sbatch runs a copy of a script, which can't look beside itself, and compute
# nodes may have another PATH: installed jobs name their folder and program.
install_local += install-slurm install-module
uninstall_local += uninstall-slurm uninstall-module
install-slurm:
	$(MKDIR_P) "$(DESTDIR)$(slurmdir)"
	for f in $(slurm_jobs); do sed \
	  -e 's|jobs=\$${SLURM_SUBMIT_DIR:-\.}/jobs/slurm|jobs=$(slurmdir)|' \
	  -e 's|\$${TESSERA:-tessera}|$${TESSERA:-$(bindir)/tessera}|' \
	  -e '/^# From a clone,/d' \
	  -e 's| jobs/slurm/| $(slurmdir)/|g; s|"\. jobs/slurm/|". $(slurmdir)/|' \
	  $(srcdir)/jobs/slurm/$$f > "$(DESTDIR)$(slurmdir)/$$f" && \
	  chmod 644 "$(DESTDIR)$(slurmdir)/$$f" || exit 1; done
uninstall-slurm:
	for f in $(slurm_jobs); do rm -f "$(DESTDIR)$(slurmdir)/$$f"; done
install-module:
	$(MKDIR_P) "$(DESTDIR)$(modulefilesdir)/tessera"
	f="$(DESTDIR)$(modulefilesdir)/tessera/$(VERSION)"; \
	  $(fill) $(srcdir)/jobs/modulefile.in > "$$f" && chmod 644 "$$f"
uninstall-module:
	rm -f "$(DESTDIR)$(modulefilesdir)/tessera/$(VERSION)"
