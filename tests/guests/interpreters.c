// A program that is not Python's and loads interpreters: interpreters WORD... where each WORD is
// global=LIBRARY or local=LIBRARY (loads one), run=NUMBER (starts that one and runs code in it), launch,
// end=NUMBER (ends that one), wait.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *libraries[4];
static int loaded;

static void *symbol(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s is not there: %s\n", name, dlerror());
        exit(2);
    }
    return found;
}

static void load(const char *path, int flags) {
    void *library = dlopen(path, RTLD_NOW | flags);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    libraries[loaded++] = library;
}

static void *numbered(const char *number) { return libraries[atoi(number) & 3]; }

static void run(void *library) {
    static const char code[] =
        "import time\n"
        "def embedded():\n"
        "    end = time.perf_counter() + 0.4\n"
        "    while time.perf_counter() < end: sum(range(500))\n"
        "embedded()\n";
    ((void (*)(int))symbol(library, "Py_InitializeEx"))(0);
    if (((int (*)(const char *, void *))symbol(library, "PyRun_SimpleStringFlags"))(code, NULL)) exit(3);
}

static void launch(void) {
    static void *cuda;
    static size_t context, stream;
    if (!cuda) {
        cuda = dlopen(getenv("STAGE2_TEST_SIM"), RTLD_NOW);
        int failed = ((int (*)(unsigned))symbol(cuda, "cuInit"))(0);
        failed |= ((int (*)(size_t *, int))symbol(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0);
        failed |= ((int (*)(size_t))symbol(cuda, "cuCtxSetCurrent"))(context);
        failed |= ((int (*)(size_t *, unsigned))symbol(cuda, "cuStreamCreate"))(&stream, 0);
        if (failed) exit(4);
    }
    for (int kernel = 0; kernel < 10; kernel++) {
        if (((int (*)(unsigned, unsigned, size_t))symbol(cuda, "stage2_sim_launch_recorded"))(1, kernel, stream)) exit(4);
    }
    if (((int (*)(size_t))symbol(cuda, "cuStreamSynchronize"))(stream)) exit(4);
}

int main(int count, char **words) {
    for (int at = 1; at < count; at++) {
        char *value = strchr(words[at], '=');
        value = value ? value + 1 : words[at];
        if (!strncmp(words[at], "global=", 7)) load(value, RTLD_GLOBAL);
        else if (!strncmp(words[at], "local=", 6)) load(value, RTLD_LOCAL | RTLD_DEEPBIND);
        else if (!strncmp(words[at], "run=", 4)) run(numbered(value));
        else if (!strncmp(words[at], "end=", 4)) ((int (*)(void))symbol(numbered(value), "Py_FinalizeEx"))();
        else if (!strcmp(words[at], "launch")) launch();
        else nanosleep(&(struct timespec){0, 300000000}, NULL);
    }
    return 0;
}
