/* counting_iterator.h - the numbers from one on. */
#pragma once

namespace thrust {
template <class T> struct counting_iterator {
  T first;
  T operator[](long long i) const {
    return (T)(first + i);
  }
};
template <class T> counting_iterator<T> make_counting_iterator(T first) {
  return {first};
}
} // namespace thrust
