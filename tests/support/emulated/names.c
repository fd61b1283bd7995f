/* names.c - what the compiler calls a kernel: from the symbols of this program,
 * which may be local ones; what the kernel needs where nvcc compiled it. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/emulated/runtime.h"

static const char *file; /* this program; NULL: not to be read */
static uintptr_t base;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int first(struct dl_phdr_info *info, size_t size, void *arg) {
  (void)size, (void)arg;
  base = info->dlpi_addr;
  return 1;
}

static void open_file(void) {
  struct stat st;
  const int fd = open("/proc/self/exe", O_RDONLY);
  if (fd < 0 || fstat(fd, &st)) return;
  void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  (void)close(fd);
  if (p == MAP_FAILED) return;
  (void)dl_iterate_phdr(first, NULL);
  file = p;
}

void ts_name_of(char *name, size_t size, const void *p) {
  (void)pthread_once(&once, open_file);
  const uintptr_t at = (uintptr_t)p - base;
  *name = '\0';
  if (!file) return;
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file;
  const Elf64_Shdr *section =
      (const Elf64_Shdr *)(const void *)(file + head->e_shoff);
  for (int i = 0; i < head->e_shnum; i++) {
    const Elf64_Shdr *s = &section[i];
    if (s->sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym *symbol =
        (const Elf64_Sym *)(const void *)(file + s->sh_offset);
    const char *text = file + section[s->sh_link].sh_offset;
    for (size_t k = 0; k < s->sh_size / sizeof *symbol; k++)
      if (ELF64_ST_TYPE(symbol[k].st_info) == STT_FUNC &&
          symbol[k].st_value == at)
        (void)snprintf(name, size, "%s", text + symbol[k].st_name);
  }
}

/* ---- registers and shared memory ----------------------------------------- */

/* From what cuobjdump prints, two lines for each kernel:
 *   Function NAME:
 *    REG:32 STACK:0 SHARED:3072 ..
 * where SHARED, unless it is 0, has what the system takes.  nvcc's names of
 * static kernels have no L behind _Z, g++'s have. */
void ts_limits_of(ts_kernel *k) {
  enum { SYSTEM_BYTES = 1024 };
  const char *set = getenv("TESSERA_EMULATED_RESOURCES");
  const bool local = !strncmp(k->name, "_ZL", 3);
  char line[1024], name[sizeof k->name];
  bool found = false;
  FILE *f = fopen(set ? set : TS_EMULATED_RESOURCES, "r");
  if (!f) return;
  while (!k->has_limits && fgets(line, sizeof line, f))
    if (sscanf(line, " Function %511[^:\n]", name) == 1)
      found = !strncmp(name, "_Z", 2) &&
              !strcmp(name + 2, k->name + (local ? 3 : 2));
    else if (found)
      k->has_limits = sscanf(line, " REG:%d STACK:%*d SHARED:%zu",
                             &k->registers, &k->shared) == 2;
  (void)fclose(f);
  k->shared -= k->shared < SYSTEM_BYTES ? k->shared : SYSTEM_BYTES;
}
