/* A device that keeps its memory on the host and computes nothing: as much of CANN's C interface as it takes for
   torch_npu to initialise, copy, time and profile. Compiled into the stub library only (stubs.py). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static int device_now, context;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}
static int take(void **into, size_t size) {
    *into = aligned_alloc(512, (size + 1023) / 512 * 512);
    return *into ? 0 : 1;
}

int aclrtGetDeviceCount(uint32_t *count) { *count = 1; return 0; }
int aclrtSetDevice(int32_t device) { device_now = device; return 0; }
int aclrtGetDevice(int32_t *device) { *device = device_now; return 0; }
int aclrtGetCurrentContext(void **to) { *to = &context; return 0; }
int aclrtDeviceGetBareTgid(int32_t *pid) { *pid = 1; return 0; }
int aclrtDeviceCanAccessPeer(int32_t *can, int32_t a, int32_t b) { *can = 0; return 0; }
int aclrtGetMemInfo(int kind, size_t *left, size_t *total) { *left = *total = (size_t)1 << 30; return 0; }
int aclGetDeviceCapability(uint32_t device, int what, int64_t *value) { *value = 1; return 0; }
int aclrtGetSysParamOpt(int option, int64_t *value) { *value = 0; return 0; }
const char *aclrtGetSocName(void) { return "Ascend910B2"; }
const char *aclGetRecentErrMsg(void) { return "the device of the contract test cannot do this"; }

int aclrtMalloc(void **into, size_t size, int policy) { return take(into, size); }
int aclrtMallocAlign32(void **into, size_t size, int policy) { return take(into, size); }
int aclrtMallocHost(void **into, size_t size) { return take(into, size); }
int aclrtFree(void *what) { free(what); return 0; }
int aclrtFreeHost(void *what) { free(what); return 0; }
int aclrtMemcpy(void *to, size_t room, const void *from, size_t size, int kind) { memcpy(to, from, size); return 0; }
int aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t size, int kind, void *stream) {
    memcpy(to, from, size);
    return 0;
}
int aclrtMemset(void *to, size_t room, int32_t value, size_t size) { memset(to, value, size); return 0; }

int aclrtCreateStream(void **stream) { return take(stream, 8); }
int aclrtCreateStreamWithConfig(void **stream, uint32_t priority, uint32_t flag) { return take(stream, 8); }
int aclrtCreateEventWithFlag(void **event, uint32_t flag) { return take(event, 8); }
int aclrtCreateEventExWithFlag(void **event, uint32_t flag) { return take(event, 8); }
int aclrtRecordEvent(uint64_t *event, void *stream) { *event = now_ns(); return 0; }
int aclrtEventElapsedTime(float *ms, uint64_t *from, uint64_t *to) { *ms = (*to - *from) / 1e6f; return 0; }

uint64_t MsprofSysCycleTime(void) { return now_ns(); }
uint64_t MsprofGetHashId(const char *text, size_t length) { return 5381; }
int aclrtSetDeviceSatMode(int mode) { return 0; }
int aclrtSynchronizeDeviceWithTimeout(int32_t timeout) { return 0; }
int aclSetCompileopt(int option, const char *value) { return 0; }
int aclrtSetSysParamOpt(int option, int64_t value) { return 0; }
int aclrtSetOpExecuteTimeOut(uint32_t timeout) { return 0; }
int aclrtDestroyStreamForce(void *stream) { return 0; }
int halGetAPIVersion(int *version) { *version = 0x080000; return 0; }
/* Where CANN would write its raw data, and how its clock goes with the wall's: only for the layer that is invented in
   its stead (msprof.py), else there is none. */
int aclprofInit(const char *path, size_t length) {
    static const char *parts[] = {"", "/host", "/device_0", "/device_0/data"};
    char at[4096];
    struct timespec wall, raw;
    for (int part = 0; getenv("NPULENS_TEST_LAYER") && part < 4; part++) {
        snprintf(at, sizeof at, "%.*s/PROF_000001_20260101000000000_STUB%s", (int)length, path, parts[part]);
        mkdir(at, 0700);
    }
    if (!getenv("NPULENS_TEST_LAYER")) return 0;
    snprintf(at, sizeof at, "%.*s/PROF_000001_20260101000000000_STUB/host/start_info", (int)length, path);
    FILE *file = fopen(at, "w");
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
    fprintf(file, "{\"collectionTimeBegin\": \"%ld%06ld\", \"clockMonotonicRaw\": \"%ld%09ld\"}",
            (long)wall.tv_sec, wall.tv_nsec / 1000, (long)raw.tv_sec, raw.tv_nsec);
    return fclose(file);
}
int aclprofStart(const void *config) { return 0; }
int aclprofStop(const void *config) { return 0; }
int aclprofFinalize(void) { return 0; }
int aclprofDestroyConfig(const void *config) { return 0; }
void *aclprofCreateConfig(uint32_t *devices, uint32_t count, int metrics, void *events, uint64_t kinds) { return &context; }
