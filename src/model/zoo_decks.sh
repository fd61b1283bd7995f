#!/bin/sh
# zoo_decks.sh DECK .. - decks as C strings, zoo_NAME, for zoo.c.
for f; do
  n=${f##*/}
  printf 'static const char zoo_%s[] =\n' "${n%.deck}"
  sed 's/["\\]/\\&/g; s/.*/  "&\\n"/' "$f"
  echo ';'
done
