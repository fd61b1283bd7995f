/* cuda_fake_image.c - what the binary code of a kernel says of it: an ELF file
 * for each architecture in what nvcc calls a fat binary.  NVIDIA doesn't
 * document all of it; what is packed or not understood is not known. */
#include <elf.h>
#include <string.h>

#include "tests/support/emulated/cuda_fake_impl.h"

enum {
  ARCH = 90,
  RESERVED = 1024, /* shared memory that the system has of each block's */
  /* Attributes of kernels. */
  MAX_THREADS = 0x05,
  PARAM_INFO = 0x17,
  PARAM_BYTES = 0x19,
  REGISTERS = 0x2f,
  PARAM_INFO_LARGE = 0x45,
  HAS_BYTES = 4 /* a format: 2 bytes with their number, then they */
};

typedef struct ts_wrapper {
  uint32_t magic, version;
  const unsigned char *data;
} ts_wrapper;

typedef struct ts_fat {
  uint32_t magic;
  uint16_t version, head_bytes;
  uint64_t bytes; /* behind the head */
} ts_fat;

typedef struct ts_entry {
  uint16_t kind, version;
  uint32_t head_bytes;
  uint64_t bytes;
  uint32_t packed_bytes, more[2], arch;
} ts_entry;

/* ---- the file of an architecture ----------------------------------------- */

typedef struct ts_elf {
  const unsigned char *at;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *section;
  const char *names;
} ts_elf;

static bool open_elf(ts_elf *e, const unsigned char *at) {
  e->at = at;
  if (memcmp(at, ELFMAG, SELFMAG) != 0) return false; /* packed */
  e->head = (const void *)at;
  e->section = (const void *)(at + e->head->e_shoff);
  e->names = (const char *)at + e->section[e->head->e_shstrndx].sh_offset;
  return true;
}

static bool find_elf(ts_elf *e, void **handle) {
  const ts_wrapper *w = (const void *)handle;
  if (w->magic != 0x466243b1) return false;
  const ts_fat *fat = (const void *)w->data;
  if (fat->magic != 0xba55ed50) return false;
  const unsigned char *p = w->data + fat->head_bytes, *end = p + fat->bytes;
  while (p < end) {
    const ts_entry *entry = (const void *)p;
    p += entry->head_bytes;
    if (entry->kind == 2 && entry->arch == ARCH) return open_elf(e, p);
    p += entry->bytes;
  }
  return false;
}

/* The section PREFIX with NAME behind it. */
static const Elf64_Shdr *find_section(const ts_elf *e, const char *prefix,
                                      const char *name) {
  const size_t n = strlen(prefix);
  for (int i = 0; i < e->head->e_shnum; i++) {
    const char *text = e->names + e->section[i].sh_name;
    if (!strncmp(text, prefix, n) && !strcmp(text + n, name))
      return &e->section[i];
  }
  return NULL;
}

/* ---- attributes ---------------------------------------------------------- */

typedef struct ts_attribute {
  unsigned char which;
  const unsigned char *data;
  size_t bytes;
} ts_attribute;

static const unsigned char *next(ts_attribute *a, const unsigned char *p) {
  uint16_t value;
  memcpy(&value, p + 2, sizeof value);
  a->which = p[1];
  a->data = p[0] == HAS_BYTES ? p + 4 : p + 2;
  a->bytes = p[0] == HAS_BYTES ? value : sizeof value;
  return p[0] == HAS_BYTES ? p + 4 + value : p + 4;
}

static uint32_t word(const ts_attribute *a, size_t i) {
  uint32_t x = 0;
  if (4 * i + 4 <= a->bytes) memcpy(&x, a->data + 4 * i, sizeof x);
  return x;
}

static void read_param(ts_fake_image *out, const ts_attribute *a) {
  const size_t i = word(a, 1) & 0xffff;
  if (i >= PARAMETERS) return;
  out->param[i].at = word(a, 1) >> 16;
  out->param[i].bytes = a->which == PARAM_INFO ? word(a, 2) >> 18 : word(a, 2);
  if (out->n_params <= (int)i) out->n_params = (int)i + 1;
}

static void read_kernel(ts_fake_image *out, const ts_elf *e,
                        const Elf64_Shdr *s) {
  const unsigned char *p = e->at + s->sh_offset, *end = p + s->sh_size;
  while (p < end) {
    ts_attribute a;
    p = next(&a, p);
    if (a.which == MAX_THREADS)
      out->most_threads = (int)(word(&a, 0) * word(&a, 1) * word(&a, 2));
    if (a.which == PARAM_BYTES) {
      uint16_t bytes;
      memcpy(&bytes, a.data, sizeof bytes);
      out->param_bytes = bytes;
    }
    if (a.which == PARAM_INFO || a.which == PARAM_INFO_LARGE)
      read_param(out, &a);
  }
}

static const char *symbol(const ts_elf *e, uint32_t i) {
  const Elf64_Shdr *symbols = find_section(e, ".symtab", "");
  const Elf64_Shdr *strings = find_section(e, ".strtab", "");
  const Elf64_Sym *all = (const void *)(e->at + symbols->sh_offset);
  return (const char *)e->at + strings->sh_offset + all[i].st_name;
}

static int registers_of(const ts_elf *e, const char *name) {
  const Elf64_Shdr *s = find_section(e, ".nv.info", "");
  const unsigned char *p = e->at + s->sh_offset, *end = p + s->sh_size;
  while (p < end) {
    ts_attribute a;
    p = next(&a, p);
    if (a.which == REGISTERS && !strcmp(symbol(e, word(&a, 0)), name))
      return (int)word(&a, 1);
  }
  return 0;
}

void ts_fake_image_read(ts_fake_image *out, void **fat, const char *name) {
  ts_elf e;
  memset(out, 0, sizeof *out);
  if (!find_elf(&e, fat)) return;
  const Elf64_Shdr *info = find_section(&e, ".nv.info.", name);
  const Elf64_Shdr *shared = find_section(&e, ".nv.shared.", name);
  if (!info) return;
  read_kernel(out, &e, info);
  out->registers = registers_of(&e, name);
  if (shared && shared->sh_size > RESERVED)
    out->shared = shared->sh_size - RESERVED;
  out->known = true;
}
