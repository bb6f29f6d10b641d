// A library that is preloaded into a server, so that a test can set the server's wall clock. It adds the seconds in a file,
// whose path is in SOLOIST_TEST_CLOCK, to the system's clock. Clocks that never step are left alone.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *seconds;

__attribute__((constructor)) static void find_file(void) {
    const char *path = getenv("SOLOIST_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) seconds = page;
    close(file);
}

static time_t ahead(void) {
    return seconds ? *seconds : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}

// A server waits until a time of this clock, but the system waits by its own. A time in the first years since 1970 is of a
// clock that never steps.
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    if (until->tv_sec < 1000000000) return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, until);
    struct timespec real = {until->tv_sec - ahead(), until->tv_nsec};
    return pthread_cond_clockwait(cond, mutex, CLOCK_REALTIME, &real);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec real = {until->tv_sec - ahead(), until->tv_nsec};
    return sem_clockwait(semaphore, CLOCK_REALTIME, &real);
}
