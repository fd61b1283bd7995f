/* words.h - streams that wait for words in pinned memory
 * (cuda/runtime/words.cu);
 * private to gpu.cu and device.cu.  All of it is Local. */
#ifndef TS_CUDA_WORDS_H
#define TS_CUDA_WORDS_H

#include "cuda/runtime/cuda_impl.h"

void ts_cuda_words_prepare(void);      /* before CUDA is first called */
void ts_cuda_words_start(int ordinal); /* with a device; reads what is set */
bool ts_cuda_words(void);              /* they may be used */
/* Appends to TEXT who waits for messages, where words were asked for. */
void ts_cuda_words_describe(char *text, size_t bytes);

/* Lanes, by 1 and by -1; whether as many may wait by themselves. */
void ts_cuda_words_count(int by);
bool ts_cuda_words_fit(void);

/* STREAM waits until WORD, in pinned memory, is LEAST or more. */
ts_err ts_cuda_wait_word(cudaStream_t stream, const uint64_t *word,
                         uint64_t least);

#endif
