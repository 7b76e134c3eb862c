/*
 * Gives a process a wall clock of its own (LD_PRELOAD): real time that gains `drift` seconds a second since `base_ns`,
 * moved by `offset_ns`. All of it is read at every call from the mapped file that CLOCK_SHIM names; zeros are real time.
 * The monotonic clock is left alone: it is what tests compare processes by.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct { double drift; int64_t base_ns, offset_ns, calls; } *shim;

__attribute__((constructor)) static void map(void) {
  const char *path = getenv("CLOCK_SHIM");
  int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
  if (file < 0 || ftruncate(file, sizeof *shim)) return;
  void *at = mmap(NULL, sizeof *shim, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) shim = at;
  close(file);
}

int clock_gettime(clockid_t id, struct timespec *time) {
  long failed = syscall(SYS_clock_gettime, id, time);
  if (failed || !shim || id != CLOCK_REALTIME) return (int)failed;
  int64_t ns = time->tv_sec * 1000000000LL + time->tv_nsec;
  ns += (int64_t)((double)(ns - shim->base_ns) * shim->drift) + shim->offset_ns;
  time->tv_sec = ns / 1000000000LL;
  time->tv_nsec = ns % 1000000000LL;
  shim->calls++;
  return 0;
}

int gettimeofday(struct timeval *time, void *zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}
