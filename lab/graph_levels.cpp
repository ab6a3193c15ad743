// Steps of a little program: graphs are made and replayed, kinds of CUPTI's records are switched, and nothing of
// ours is loaded -> which records come, and what each replay takes. graph_levels.py has the programs and the table.
//
// Usage: graph_levels LIBCUPTI v1|v2 STEP...    One process is one experiment, because CUPTI keeps its state.
// Prints `> STEP` before each step, so that a crash tells where it was, and a line of JSON after it.
//
//   start                      the driver, its context, a stream, and the kernels; any step that needs them does it
//   load, sub[@B], multi[@B]   dlopen of libcupti; subscribe (`multi`: beside others, second API)
//   register[@B], pool:N       hand CUPTI the functions for buffers; make and touch N buffers of 1 MB in advance (0)
//   on:KINDS[@B], off:KINDS    k kernels, g whole graphs, m copies, s fills, e events, r and d calls of both CUDA APIs
//   onctx:KINDS, offctx:KINDS  the same for the one context
//   attr:N:VALUE, show:N       attributes of CUPTI; alloc:0|1 cuptiActivityEnableAllocationSource (first API only)
//   eventtimes:0|1             records of events with the GPU's time (CUDA 13.0)
//   fields:min|name            second API: records of five fields, without or with the kernel's name
//   flush:0|1, unsub[@B], finalize, sleep:MS
//   callback:none|time|events  of cuGraphLaunch: off; cuptiGetTimestamp, which is of the first API and may make the
//                              second one refuse buffers that are registered later; an event before and behind
//   nodes:N, distinct:0|1|2    of graphs to be made (400): all of one kernel (0), or of those of the last module; 2:
//                              each graph goes on where the last one ended
//   make:NAME, set:NAME:COUNT  capture and instantiate one graph, or NAME0 to NAME{COUNT-1}
//   again:NAME, update:NAME, upload:NAME    instantiate it anew, cuGraphExecUpdate by a new capture, cuGraphUpload
//   replay:NAME:N              N replays, each waited for
//   each:NAME:COUNT            one replay of each graph of a set
//   queue:NAME:N               N replays in a row before one wait, ten times
//   events:NAME:N              N replays between two events of the program itself, read afterwards
//   toggle:KINDS:NAME:N:OFF[:flush]  N times: kinds on, a replay, kinds off, cuptiActivityFlushAll(0), OFF replays
//   eager:N, warm:MS           N launches of one kernel; so many that the GPU is at its clock, not timed
//   module, first              load 500 new kernels; launch each of them once and wait
//   graph_ways.h has more
// Build: g++ -O2 -std=c++17 graph_levels.cpp -o graph_levels -ldl (headers of CUDA, and of CUPTI 13.4 or later)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <csignal>
#include <fstream>
#include <thread>
#include <utility>

#include "graph_levels.h"

using namespace levels;

namespace {

constexpr int kFirst = 500;      // Kernels of a module.
constexpr int kEvents = 4096;    // Pairs that a launch may record; older ones are written over.
constexpr int kBlocks = 10;
constexpr double kCyclesPerUs = 1980;  // Of an H100 under load.

struct Graph {
  CUgraph captured = nullptr;
  CUgraphExec exec = nullptr;
  // How it is built anew for an update, if not by a plain capture.
  std::string shape;
};

// As generated_cuda_meta.h has them for both launch calls; it wants the runtime headers of its own CUDA.
struct LaunchParameters {
  CUgraphExec exec;
  CUstream stream;
};

struct Span {
  uint64_t start, end;
};

struct Pair {
  CUevent before, behind;
};

CUcontext context;
CUstream stream;
CUdeviceptr values;
CUfunction one;
std::vector<CUfunction> many;
std::map<std::string, Graph> graphs;
std::vector<Pair> events;
const char* library_path;
bool started = false, loaded = false;
int nodes = 400, modules = 0;
// Of later graphs: 0 one kernel, 1 all kernels of the last module, 2 those behind the last graph's.
int distinct = 0, last_kernel = 0;
// What nodes of later graphs take, in turn (us); empty: kernels that do nearly nothing.
std::vector<double> spins;
CUfunction spin_kernel;
unsigned long long instantiate_flags = 0;
// What a replay takes, if it is known; records that say otherwise are counted as wrong.
double expected_us = 0;
enum class OnLaunch { kNothing, kTime, kEvents } on_launch = OnLaunch::kNothing;
long callbacks_seen = 0, pairs_recorded = 0;
uint64_t last_seen = 0;

// Lines of JSON.
std::string line;

void say(const char* name, double value) {
  char text[96];
  if (std::isnan(value)) return;
  std::snprintf(text, sizeof text, ", \"%s\": %.6g", name, value);
  line += text;
}

double at_share(std::vector<double> sorted, double share) {
  if (sorted.empty()) return NAN;
  std::sort(sorted.begin(), sorted.end());
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * sorted.size()))];
}

double median(const std::vector<double>& all) { return at_share(all, 0.5); }

void say_list(const char* name, const std::vector<double>& all) {
  line += std::string(", \"") + name + "\": [";
  for (size_t i = 0; i < all.size(); ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "%s%.4g", i > 0 ? ", " : "", all[i]);
    line += text;
  }
  line += "]";
}

// Microseconds, and how they spread: medians of ten blocks, and how the series began.
void say_series(const std::string& name, const std::vector<double>& us) {
  if (us.empty()) return;
  std::vector<double> blocks;
  for (size_t block = 0; block < kBlocks && us.size() >= 10 * kBlocks; ++block) {
    const auto from = us.begin() + block * us.size() / kBlocks;
    blocks.push_back(median({from, us.begin() + (block + 1) * us.size() / kBlocks}));
  }
  double sum = 0;
  for (const double each : us) sum += each;
  say((name + "_median_us").c_str(), median(us));
  say((name + "_p99_us").c_str(), at_share(us, 0.99));
  say((name + "_max_us").c_str(), *std::max_element(us.begin(), us.end()));
  say((name + "_sum_us").c_str(), sum);
  say_list((name + "_blocks_us").c_str(), blocks);
  say_list((name + "_first_us").c_str(), {us.begin(), us.begin() + std::min<size_t>(us.size(), 12)});
}

// One launch and the wait for it.
struct Timed {
  std::vector<double> launch, whole;

  template <typename Launch>
  void add(Launch launched) {
    const double start = now_us();
    launched();
    const double middle = now_us();
    CUDA(cuStreamSynchronize, stream);
    launch.push_back(middle - start);
    whole.push_back(now_us() - start);
  }

  void print(const std::string& prefix) const {
    say_series(prefix + "launch", launch);
    say_series(prefix + "whole", whole);
  }
};

void record_event(CUevent event, CUstream at) { CUDA(cuEventRecord, event, at); }

void make_events() {
  if (!events.empty()) return;
  std::vector<Pair> made(kEvents);
  for (auto& pair : made) {
    CUDA(cuEventCreate, &pair.before, static_cast<unsigned>(CU_EVENT_DEFAULT));
    CUDA(cuEventCreate, &pair.behind, static_cast<unsigned>(CU_EVENT_DEFAULT));
  }
  events = std::move(made);
}

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* raw) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || on_launch == OnLaunch::kNothing) return;
  if (id != CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch && id != CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz) return;
  const auto* call = static_cast<const CUpti_CallbackData*>(raw);
  const bool before = call->callbackSite == CUPTI_API_ENTER;
  ++callbacks_seen;
  if (on_launch == OnLaunch::kTime) {
    cupti.cuptiGetTimestamp(&last_seen);
    return;
  }
  const auto* parameters = static_cast<const LaunchParameters*>(call->functionParams);
  const Pair& pair = events[pairs_recorded % kEvents];
  driver.cuEventRecord(before ? pair.before : pair.behind, parameters->stream);
  pairs_recorded += !before;
}

void load() {
  if (loaded) return;
  cupti.open(library_path);
  loaded = true;
}

int slot_of(std::string& step) {
  const size_t at = step.find('@');
  if (at == std::string::npos) return 0;
  const bool is_b = step.substr(at) == "@B";
  step.resize(at);
  return is_b;
}

// The second API gives records to subscribers only; the first one needs none.
void ready(int slot) {
  load();
  if (second_api) subscribe(slot, false, on_callback);
  register_buffers(slot);
}

CUpti_ActivityKind kind_of(char letter) {
  switch (letter) {
    case 'k': return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case 'g': return CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
    case 'm': return CUPTI_ACTIVITY_KIND_MEMCPY;
    case 's': return CUPTI_ACTIVITY_KIND_MEMSET;
    case 'e': return CUPTI_ACTIVITY_KIND_CUDA_EVENT;
    case 'r': return CUPTI_ACTIVITY_KIND_RUNTIME;
    case 'd': return CUPTI_ACTIVITY_KIND_DRIVER;
    default: throw std::runtime_error(std::string("no kind has the letter ") + letter);
  }
}

void switch_kinds(int slot, const std::string& kinds, bool on) {
  for (const char letter : kinds) switch_kind(slot, kind_of(letter), on);
}

void load_module(int count) {
  std::string text = ".version 7.0\n.target sm_70\n.address_size 64\n";
  for (int i = 0; i < count; ++i) {
    text += ".visible .entry kernel_" + std::to_string(modules) + "_" + std::to_string(i) +
            "(.param .u64 values) {\n.reg .u64 %a, %o; .reg .u32 %t; .reg .f32 %f;\n"
            "ld.param.u64 %a, [values]; cvta.to.global.u64 %a, %a; mov.u32 %t, %tid.x;\n"
            "mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; ld.global.f32 %f, [%a];\n"
            "add.f32 %f, %f, 0f3F800000; st.global.f32 [%a], %f; ret;\n}\n";
  }
  CUmodule module;
  CUDA(cuModuleLoadData, &module, static_cast<const void*>(text.c_str()));
  many.resize(count);
  for (int i = 0; i < count; ++i) {
    const std::string name = "kernel_" + std::to_string(modules) + "_" + std::to_string(i);
    CUDA(cuModuleGetFunction, &many[i], module, name.c_str());
  }
  ++modules;
}

void start() {
  if (started) return;
  started = true;
  CUDA(cuInit, 0u);
  CUdevice device;
  CUDA(cuDeviceGet, &device, 0);
  CUDA(cuDevicePrimaryCtxRetain, &context, device);
  CUDA(cuCtxSetCurrent, context);
  CUDA(cuStreamCreate, &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  CUDA(cuMemAlloc, &values, static_cast<size_t>(4096));
  load_module(1);
  one = many[0];
}

void launch(CUfunction function) {
  void* parameters[] = {&values};
  CUDA(cuLaunchKernel, function, 1u, 1u, 1u, 32u, 1u, 1u, 0u, stream, parameters, nullptr);
}

void launch_node(int at) {
  if (spins.empty()) return launch(distinct != 0 ? many[(last_kernel + at) % many.size()] : one);
  long long cycles = static_cast<long long>(spins[at % spins.size()] * kCyclesPerUs);
  void* parameters[] = {&values, &cycles};
  CUDA(cuLaunchKernel, spin_kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, stream, parameters, nullptr);
}

CUgraph capture() {
  CUgraph captured;
  CUDA(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  for (int i = 0; i < nodes; ++i) launch_node(i);
  if (distinct == 2) last_kernel += nodes;
  CUDA(cuStreamEndCapture, stream, &captured);
  return captured;
}

void make(const std::string& name) {
  Graph& graph = graphs[name];
  graph.captured = capture();
  CUDA(cuGraphInstantiate, &graph.exec, graph.captured, instantiate_flags);
}

Graph& graph_of(const std::string& name) {
  const auto found = graphs.find(name);
  if (found == graphs.end()) throw std::runtime_error("no graph was made that is called " + name);
  return found->second;
}

CUgraph build(const std::string& shape);

void update(Graph& graph) {
  const CUgraph other = graph.shape.empty() ? capture() : build(graph.shape);
  CUgraphExecUpdateResultInfo info = {};
  CUDA(cuGraphExecUpdate, graph.exec, other, &info);
  CUDA(cuGraphDestroy, other);
}

// Reads all pairs of events from one on, and says what reading one takes.
void say_events(long from, long to) {
  std::vector<double> elapsed;
  const double begun = now_us();
  for (long i = std::max(from, to - kEvents); i < to; ++i) {
    float ms = 0;
    const Pair& pair = events[i % kEvents];
    CUDA(cuEventElapsedTime, &ms, pair.before, pair.behind);
    elapsed.push_back(ms * 1e3);
  }
  if (elapsed.empty()) return;
  say("event_read_us", (now_us() - begun) / elapsed.size());
  say("event_median_us", median(elapsed));
  say("event_p99_us", at_share(elapsed, 0.99));
}

// Pairs of events that CUPTI recorded, the first one of each before a launch.
void say_recorded_events(std::vector<uint64_t>& times) {
  if (times.empty()) return;
  say("event_records", times.size());
  say("untimed_events", std::count(times.begin(), times.end(), 0u));
  std::sort(times.begin(), times.end());
  std::vector<double> between;
  for (size_t i = 0; i + 1 < times.size(); i += 2) between.push_back((times[i + 1] - times[i]) / 1e3);
  say("recorded_events_us", median(between));
}

// What CUPTI handed over since the last step.
void say_records(const std::vector<Span>& on) {
  if (loaded && subscribers[0].registered) {
    if (started) driver.cuCtxSynchronize();
    // Records of ended work come with the second flush at the latest.
    for (int i = 0; i < 2; ++i) {
      cupti.cuptiActivityFlushAll(0);
      usleep(2000);
    }
  }
  const std::lock_guard<std::mutex> guard(records_lock);
  struct Replay {
    uint64_t start = UINT64_MAX, end = 0, sum = 0;
    long nodes = 0;
    std::vector<Span> kernels;
  };
  std::map<uint32_t, Replay> replays;
  long counts[3] = {}, untimed[3] = {}, inside[3] = {};
  std::vector<double> graph_us;
  std::vector<uint64_t> event_times;
  for (const Record& record : records) {
    if (record.kind == CUPTI_ACTIVITY_KIND_CUDA_EVENT) {
      event_times.push_back(record.start);
      continue;
    }
    const int sort = record.kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE ? 1 : record.graph != 0 ? 0 : 2;
    const bool timed = record.start != 0 && record.end >= record.start;
    ++counts[sort];
    untimed[sort] += !timed;
    const auto next = std::upper_bound(on.begin(), on.end(), record.start,
                                       [](uint64_t at, const Span& span) { return at < span.start; });
    inside[sort] += next != on.begin() && record.start <= (next - 1)->end;
    if (sort == 1 && timed) graph_us.push_back((record.end - record.start) / 1e3);
    if (sort != 0) continue;
    Replay& replay = replays[record.correlation];
    ++replay.nodes;
    if (!timed) continue;
    replay.start = std::min(replay.start, record.start);
    replay.end = std::max(replay.end, record.end);
    replay.sum += record.end - record.start;
    if (spins.size() > 1) replay.kernels.push_back({record.start, record.end});
  }
  std::vector<double> nodes_each, span_us, sum_us;
  std::vector<std::vector<double>> of_class(spins.size());
  for (auto& [id, replay] : replays) {
    // Nodes of a chain end in their order.
    std::sort(replay.kernels.begin(), replay.kernels.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
    for (size_t i = 0; i < replay.kernels.size(); ++i) {
      of_class[i % spins.size()].push_back((replay.kernels[i].end - replay.kernels[i].start) / 1e3);
    }
    nodes_each.push_back(replay.nodes);
    if (replay.end < replay.start) continue;
    span_us.push_back((replay.end - replay.start) / 1e3);
    sum_us.push_back(replay.sum / 1e3);
  }
  const char* names[] = {"nodes", "graphs", "eager"};
  for (int sort = 0; sort < 3; ++sort) {
    say(names[sort], counts[sort]);
    if (untimed[sort] > 0) say((std::string("untimed_") + names[sort]).c_str(), untimed[sort]);
    if (!on.empty()) say((std::string("on_") + names[sort]).c_str(), inside[sort]);
  }
  if (!replays.empty()) {
    say("replays_with_nodes", replays.size());
    say("nodes_each", median(nodes_each));
  }
  if (spins.size() > 1 && !replays.empty()) {
    std::vector<double> medians;
    for (const auto& all : of_class) medians.push_back(median(all));
    say_list("class_us", medians);
  }
  if (expected_us > 0) {
    const auto is_wrong = [](double us) { return us < 0.8 * expected_us || us > 1.5 * expected_us; };
    const auto wrong = [&](const auto& all) { return std::count_if(all.begin(), all.end(), is_wrong); };
    say("wrong_graphs", wrong(graph_us));
    say("wrong_spans", wrong(span_us));
  }
  if (!span_us.empty()) say("span_us", median(span_us)), say("kernels_us", median(sum_us));
  if (!graph_us.empty()) say("graph_us", median(graph_us)), say("graph_p99_us", at_share(graph_us, 0.99));
  say_recorded_events(event_times);
  if (other_records > 0) say("others", other_records);
  if (unread_bytes > 0) say("unread_bytes", unread_bytes);
  {
    const std::lock_guard<std::mutex> buffers_guard(buffers_lock);
    if (buffers_made > 0) say("buffers_made_late", buffers_made);
    buffers_made = 0;
  }
  if (callbacks_seen > 0) say("callbacks", callbacks_seen);
  records.clear();
  other_records = unread_bytes = callbacks_seen = 0;
}

void warm(int ms) {
  for (const double end = now_us() + ms * 1e3; now_us() < end;) {
    for (int i = 0; i < 100; ++i) launch(one);
    CUDA(cuStreamSynchronize, stream);
  }
}

void toggle(const std::string& kinds, Graph& graph, int rounds, int off_each, bool flush) {
  ready(0);
  Timed on, off;
  std::vector<double> enable, disable, flushed;
  std::vector<Span> spans;
  const auto replay = [&] { CUDA(cuGraphLaunch, graph.exec, stream); };
  for (int round = 0; round < rounds; ++round) {
    double begun = now_us();
    switch_kinds(0, kinds, true);
    enable.push_back(now_us() - begun);
    const uint64_t from = timestamp();
    on.add(replay);
    spans.push_back({from, timestamp()});
    begun = now_us();
    switch_kinds(0, kinds, false);
    disable.push_back(now_us() - begun);
    begun = now_us();
    if (flush) CUPTI(cuptiActivityFlushAll, 0u);
    flushed.push_back(now_us() - begun);
    for (int i = 0; i < off_each; ++i) off.add(replay);
  }
  on.print("on_");
  off.print("");
  say("enable_us", median(enable));
  say("disable_us", median(disable));
  if (flush) say("flush_us", median(flushed));
  say_records(spans);
}

void queue(Graph& graph, int count) {
  std::vector<double> each;
  for (int block = 0; block < kBlocks; ++block) {
    const double begun = now_us();
    for (int i = 0; i < count; ++i) CUDA(cuGraphLaunch, graph.exec, stream);
    CUDA(cuStreamSynchronize, stream);
    each.push_back((now_us() - begun) / count);
  }
  say("whole_median_us", median(each));
  say_list("whole_blocks_us", each);
  say_records({});
}

void measured(const std::string& verb, const std::vector<std::string>& words, int number) {
  Timed timed;
  const long pairs = pairs_recorded;
  for (int i = 0; i < number; ++i) {
    if (verb == "first") {
      timed.add([&] { launch(many[i]); });
    } else if (verb == "eager") {
      timed.add([&] { launch(one); });
    } else if (verb == "each") {
      Graph& graph = graph_of(words[1] + std::to_string(i));
      timed.add([&] { CUDA(cuGraphLaunch, graph.exec, stream); });
    } else if (verb == "events") {
      Graph& graph = graph_of(words[1]);
      const Pair& pair = events[pairs_recorded++ % kEvents];
      timed.add([&] {
        record_event(pair.before, stream);
        CUDA(cuGraphLaunch, graph.exec, stream);
        record_event(pair.behind, stream);
      });
    } else {
      Graph& graph = graph_of(words[1]);
      timed.add([&] { CUDA(cuGraphLaunch, graph.exec, stream); });
    }
  }
  timed.print("");
  if (pairs_recorded > pairs) say_events(pairs, pairs_recorded);
  say_records({});
}

void set_callback(const std::string& what) {
  load();
  start();
  if (what == "events") make_events();
  subscribe(0, false, on_callback);
  on_launch = what == "events" ? OnLaunch::kEvents : what == "time" ? OnLaunch::kTime : OnLaunch::kNothing;
  for (const uint32_t id : {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz}) {
    CUPTI(cuptiEnableCallback, what != "none", subscribers[0].handle, CUPTI_CB_DOMAIN_DRIVER_API, id);
  }
}

#include "graph_ways.h"

// Steps that a CUPTI is needed for. False: it is none of them.
bool run_cupti(const std::string& verb, const std::vector<std::string>& words, int slot, int number) {
  if (verb == "load") load();
  else if (verb == "sub" || verb == "multi") load(), subscribe(slot, verb == "multi", on_callback);
  else if (verb == "register") ready(slot);
  else if (verb == "on") ready(slot), switch_kinds(slot, words[1], true);
  else if (verb == "off") switch_kinds(slot, words[1], false);
  else if (verb == "onctx" || verb == "offctx") {
    ready(slot);
    start();
    for (const char letter : words[1]) {
      if (verb == "onctx") CUPTI(cuptiActivityEnableContext, context, kind_of(letter));
      else CUPTI(cuptiActivityDisableContext, context, kind_of(letter));
    }
  } else if (verb == "attr" || verb == "show") {
    load();
    if (second_api) subscribe(slot, false, on_callback);
    if (verb == "attr") set_attribute(slot, number, std::stoul(words[2]));
    say("value", attribute_of(slot, number));
  } else if (verb == "eventtimes") {
    load();
    if (second_api) subscribe(slot, false, on_callback), set_attribute(slot, 17, number);
    else CUPTI(cuptiActivityEnableCudaEventDeviceTimestamps, static_cast<uint8_t>(number));
  } else if (verb == "alloc") load(), CUPTI(cuptiActivityEnableAllocationSource, static_cast<uint8_t>(number));
  else if (verb == "fields") {
    load();
    subscribe(slot, false, on_callback);
    set_attribute(slot, 11, 1);
    chosen_fields = true;
    with_name = words[1] == "name";
  } else if (verb == "flush") CUPTI(cuptiActivityFlushAll, static_cast<uint32_t>(number));
  else if (verb == "unsub") {
    CUPTI(cuptiUnsubscribe, subscribers[slot].handle);
    subscribers[slot] = {};
  } else if (verb == "finalize") {
    CUPTI(cuptiActivityFlushAll, 1u);
    CUPTI(cuptiFinalize);
    for (auto& subscriber : subscribers) subscriber = {};
  } else if (verb == "callback") set_callback(words[1]);
  else return false;
  return true;
}

void run(std::string step) {
  const int slot = slot_of(step);
  std::vector<std::string> words;
  for (size_t from = 0; from <= step.size();) {
    const size_t colon = std::min(step.find(':', from), step.size());
    words.push_back(step.substr(from, colon - from));
    from = colon + 1;
  }
  const std::string& verb = words[0];
  const std::string& last = words.back();
  const int number = words.size() > 1 && std::isdigit(last[0]) && verb != "attr" ? std::stoi(last)
                     : verb == "attr"                                            ? std::stoi(words[1])
                                                                                 : 0;
  const std::vector<std::string> dry = {"nodes", "distinct", "pool", "sleep"};
  if (std::find(dry.begin(), dry.end(), verb) != dry.end()) {
    if (verb == "nodes") nodes = number;
    if (verb == "distinct") distinct = number;
    if (verb == "pool") provide_buffers(number);
    if (verb == "sleep") usleep(number * 1000);
    return;
  }
  if (run_cupti(verb, words, slot, number)) return;
  start();
  if (verb == "start" || run_way(words)) return;
  if (verb == "module") load_module(kFirst);
  else if (verb == "warm") warm(number);
  else if (verb == "make") make(words[1]);
  else if (verb == "set") for (int i = 0; i < number; ++i) make(words[1] + std::to_string(i));
  else if (verb == "again") {
    Graph& graph = graph_of(words[1]);
    CUDA(cuGraphExecDestroy, graph.exec);
    CUDA(cuGraphInstantiate, &graph.exec, graph.captured, instantiate_flags);
  } else if (verb == "update") update(graph_of(words[1]));
  else if (verb == "upload") CUDA(cuGraphUpload, graph_of(words[1]).exec, stream), CUDA(cuStreamSynchronize, stream);
  else if (verb == "queue") queue(graph_of(words[1]), number);
  else if (verb == "toggle") {
    toggle(words.at(1), graph_of(words.at(2)), std::stoi(words.at(3)), std::stoi(words.at(4)), last == "flush");
  } else if (verb == "first") measured(verb, words, static_cast<int>(many.size()));
  else if (verb == "events") make_events(), measured(verb, words, number);
  else if (verb == "replay" || verb == "each" || verb == "eager") measured(verb, words, number);
  else throw std::runtime_error("no step is called " + verb);
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) {
    std::fprintf(stderr, "usage: graph_levels LIBCUPTI v1|v2 STEP... (the head of graph_levels.cpp has the steps)\n");
    return 2;
  }
  library_path = words[1];
  second_api = std::string(words[2]) == "v2";
  records.reserve(kMostRecords);
  int failed = 0;
  try {
    driver.open();
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "no driver: %s\n", error.what()), 77;
  }
  for (int i = 3; i < count; ++i) {
    std::printf("> %s\n", words[i]);
    std::fflush(stdout);
    line = std::string("{\"step\": \"") + words[i] + "\"";
    const double begun = now_us();
    try {
      run(words[i]);
    } catch (const std::exception& error) {
      std::string why = error.what();
      std::replace_if(why.begin(), why.end(), [](char letter) { return letter == '"' || letter == '\\'; }, '\'');
      line += ", \"error\": \"" + why + "\"";
      failed = 1;
    }
    say("us", now_us() - begun);
    if (loaded && i == count - 1) say("version", cupti.version);
    std::printf("%s}\n", line.c_str());
    std::fflush(stdout);
  }
  // What CUPTI and the driver do at exit is no part of the experiment.
  _exit(failed);
}
