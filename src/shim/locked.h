// Holds a mutex for a scope. Of pthreads: the library has no libstdc++ behind it.
#pragma once

#include <pthread.h>

namespace divvy::shim {

class Locked {
 public:
  explicit Locked(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Locked() { pthread_mutex_unlock(&mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace divvy::shim
