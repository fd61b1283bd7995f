/* index.c - stand-in */
#include "sparse/index.h"
#include "base/mem.h"
#include <stdlib.h>
struct ts_index { int64_t first,n_rows,n,size; int64_t *id; uint32_t *row; };
ts_err ts_index_create(ts_index **o, int64_t first, int64_t n) {
  ts_index *x; TS_DO(ts_mem_alloc(&x,sizeof *x,TS_TAG_SPARSE));
  x->first=first; x->n_rows=n; x->size=16; while(x->size<2*n)x->size*=2;
  *o=x; TS_DO(ts_mem_many(x->id,x->size,SPARSE)); return ts_mem_many(x->row,x->size,SPARSE); }
void ts_index_destroy(ts_index *x){ if(!x)return; ts_mem_free(x->id); ts_mem_free(x->row); ts_mem_free(x);}
int64_t ts_index_n(const ts_index*x){return x->n;}
int64_t ts_index_bytes(const ts_index*x){return x->size*12;}
static int64_t at(const ts_index*x,int64_t id){ uint64_t m=(uint64_t)x->size-1,k=ts_index_key(id)&m; while(x->row[k]&&x->id[k]!=id)k=(k+1)&m; return (int64_t)k;}
void ts_index_find(const ts_index*x,uint32_t*row,const int64_t*ids,int64_t n){for(int64_t i=0;i<n;i++){int64_t k=at(x,ids[i]);row[i]=x->row[k]?x->row[k]-1:TS_INDEX_NONE;}}
ts_err ts_index_insert(ts_index*x,uint32_t*row,const int64_t*ids,int64_t n,int64_t*fresh,int64_t*nf){*nf=0;for(int64_t i=0;i<n;i++){int64_t k=at(x,ids[i]);if(!x->row[k]){if(x->n==x->n_rows){row[i]=TS_INDEX_NONE;continue;}x->id[k]=ids[i];x->row[k]=(uint32_t)(x->first+x->n++)+1;fresh[(*nf)++]=i;}row[i]=x->row[k]-1;}return TS_OK;}
bool ts_index_erase(ts_index*x,int64_t id){(void)x;(void)id;return false;}
typedef struct p {uint64_t k;int64_t id;uint32_t r;} pr;
static int cmp(const void*a,const void*b){const pr*x=a,*y=b;return x->k<y->k?-1:x->k>y->k;}
ts_err ts_index_list(const ts_index*x,int64_t*ids,uint32_t*row){pr*p;int64_t n=0;TS_DO(ts_mem_many(p,x->n+1,SPARSE));for(int64_t k=0;k<x->size;k++)if(x->row[k])p[n++]=(pr){ts_index_key(x->id[k]),x->id[k],x->row[k]-1};if(n)qsort(p,(size_t)n,sizeof *p,cmp);for(int64_t i=0;i<n;i++){ids[i]=p[i].id;row[i]=p[i].r;}ts_mem_free(p);return TS_OK;}
void ts_index_probes(const ts_index*x,const int64_t*ids,int64_t n,int64_t*sum,int64_t*most){(void)x;(void)ids;(void)n;*sum=*most=0;}
