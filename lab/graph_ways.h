// More steps of graph_levels.cpp, which includes this file in the middle: graphs that change or branch, threads and
// replays at a switch, what the host does in a slow launch, and times that a graph takes of itself.
//
//   spin:US[,US...]            nodes of later graphs take so long, in turn (0: they do nearly nothing)
//   flags:N                    of later instantiations (1 free on launch, 2 upload, 4 device launch, 8 priorities)
//   expect:NAME                measures a replay; records that differ much are counted from then on (expect:none)
//   shape:NAME:SHAPE           a graph of one kernel and child|if|turn|while (3 rounds)|alloc: nodes below, or in turn
//   second:NAME                a second executable graph of the same graph, NAME2
//   params:NAME, enable:NAME:0|1   all kernel nodes get other parameters in place; every second one is left out
//   each_update:NAME:N         N times: a replay and an update, without a wait between them
//   together:A:B:N             replays of A and of B in turn, 20 times N before one wait
//   inflight:MODE:KINDS:NAME:N   off, on: kinds are switched in the middle of a replay; next: records are switched off
//                              between a replay and the next, which both wait; recorded: kinds on between them
//   threads:KINDS:T:WINDOWS    T threads replay a graph of their own while this one switches kinds, after each 100 ms
//   speed:NAME:N               N replays waited for: on which processor, at which clock, where in the code
//   pin:N|all, crowd:T         this thread's processor, one of those allowed; T further threads that only compute
//   slices:NAME:MS[:T]         replays for so long; what they take in each 100 ms, while T threads launch kernels
//   modules:N                  load N times 500 new kernels, which all count as those of the last module
//   marks:NAME:ends|each:event|kernel    a graph with nodes that take the time, at its ends or around each node
//   marked:NAME:N              N replays of it, whose times are read after each
//   swap:A:B:N:K               N launches, every Kth of B, the others of A
//   hes, profiler              hardware event system; cuptiProfilerInitialize alone
#pragma once

CUfunction stamp_kernel, turn_kernel, count_kernel;
CUdeviceptr counter;

// The cubin of graph_ways.cu.
void load_kernels() {
  if (spin_kernel != nullptr) return;
  const char* path = std::getenv("GRAPH_WAYS_CUBIN");
  std::ifstream file(path == nullptr ? "" : path, std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (image.empty()) throw std::runtime_error("GRAPH_WAYS_CUBIN names no file");
  CUmodule module;
  CUDA(cuModuleLoadData, &module, static_cast<const void*>(image.data()));
  CUDA(cuModuleGetFunction, &stamp_kernel, module, "stamp");
  CUDA(cuModuleGetFunction, &turn_kernel, module, "turn");
  CUDA(cuModuleGetFunction, &count_kernel, module, "count");
  CUDA(cuModuleGetFunction, &spin_kernel, module, "spin");
  CUDA(cuMemAlloc, &counter, static_cast<size_t>(4096));
}

CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, CUfunction function, void** parameters) {
  CUDA_KERNEL_NODE_PARAMS wanted = {};
  wanted.func = function;
  wanted.gridDimX = wanted.gridDimY = wanted.gridDimZ = 1;
  wanted.blockDimX = 32, wanted.blockDimY = wanted.blockDimZ = 1;
  wanted.kernelParams = parameters;
  CUgraphNode node;
  CUDA(cuGraphAddKernelNode, &node, graph, static_cast<const CUgraphNode*>(after == nullptr ? nullptr : &after),
       static_cast<size_t>(after != nullptr), static_cast<const CUDA_KERNEL_NODE_PARAMS*>(&wanted));
  return node;
}

CUgraphNode add_conditional(CUgraph graph, CUgraphNode after, CUgraphConditionalHandle handle,
                            CUgraphConditionalNodeType type, CUgraph& body) {
  CUgraphNodeParams wanted = {};
  wanted.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  wanted.conditional.handle = handle;
  wanted.conditional.type = type;
  wanted.conditional.size = 1;
  wanted.conditional.ctx = context;
  CUgraphNode node;
  CUDA(cuGraphAddNode, &node, graph, static_cast<const CUgraphNode*>(&after),
       static_cast<const CUgraphEdgeData*>(nullptr), static_cast<size_t>(1), &wanted);
  body = wanted.conditional.phGraph_out[0];
  return node;
}

constexpr int kRounds = 3;

CUgraph build_alloc() {
  CUgraph graph;
  CUDA(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUdeviceptr memory;
  CUDA(cuMemAllocAsync, &memory, static_cast<size_t>(1 << 20), stream);
  for (int i = 0; i < nodes; ++i) launch_node(i);
  CUDA(cuMemFreeAsync, memory, stream);
  CUDA(cuStreamEndCapture, stream, &graph);
  return graph;
}

// One kernel, what the shape says, and one kernel.
CUgraph build(const std::string& shape) {
  if (shape == "alloc") return build_alloc();
  load_kernels();
  CUgraph graph;
  CUDA(cuGraphCreate, &graph, 0u);
  void* parameters[] = {&values};
  CUgraphNode last;
  if (shape == "child") {
    last = add_kernel(graph, nullptr, one, parameters);
    CUgraphNode child;
    const CUgraph below = capture();
    CUDA(cuGraphAddChildGraphNode, &child, graph, static_cast<const CUgraphNode*>(&last), static_cast<size_t>(1),
         below);
    CUDA(cuGraphDestroy, below);
    last = child;
  } else {
    CUgraphConditionalHandle handle;
    CUDA(cuGraphConditionalHandleCreate, &handle, graph, context, 1u,
         static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT));
    int rounds = kRounds, next = 0;
    void* counted[] = {&handle, &counter, &rounds};
    void* counted_down[] = {&handle, &counter, &next};
    if (shape == "turn") last = add_kernel(graph, nullptr, turn_kernel, counted);
    else if (shape == "while") last = add_kernel(graph, nullptr, count_kernel, counted);
    else if (shape == "if") last = add_kernel(graph, nullptr, one, parameters);
    else throw std::runtime_error("no shape is called " + shape);
    CUgraph body;
    const auto type = shape == "while" ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF;
    last = add_conditional(graph, last, handle, type, body);
    CUgraphNode below = nullptr;
    for (int i = 0; i < nodes; ++i) below = add_kernel(body, below, distinct ? many[i % many.size()] : one, parameters);
    if (shape == "while") add_kernel(body, below, count_kernel, counted_down);
  }
  add_kernel(graph, last, one, parameters);
  return graph;
}

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  size_t count = 0;
  CUDA(cuGraphGetNodes, graph, static_cast<CUgraphNode*>(nullptr), &count);
  std::vector<CUgraphNode> all(count);
  CUDA(cuGraphGetNodes, graph, all.data(), &count);
  return all;
}

void change_parameters(Graph& graph) {
  const CUdeviceptr other = values + 1024;
  void* parameters[] = {const_cast<CUdeviceptr*>(&other)};
  for (const CUgraphNode node : nodes_of(graph.captured)) {
    CUDA_KERNEL_NODE_PARAMS wanted = {};
    CUDA(cuGraphKernelNodeGetParams, node, &wanted);
    wanted.kernelParams = parameters;
    wanted.extra = nullptr;
    CUDA(cuGraphExecKernelNodeSetParams, graph.exec, node, static_cast<const CUDA_KERNEL_NODE_PARAMS*>(&wanted));
  }
}

void enable_half(Graph& graph, bool on) {
  const auto all = nodes_of(graph.captured);
  for (size_t i = 1; i < all.size(); i += 2) CUDA(cuGraphNodeSetEnabled, graph.exec, all[i], static_cast<unsigned>(on));
}

double typical_us(Graph& graph) {
  std::vector<double> us;
  for (int i = 0; i < 20; ++i) {
    const double begun = now_us();
    CUDA(cuGraphLaunch, graph.exec, stream);
    CUDA(cuStreamSynchronize, stream);
    us.push_back(now_us() - begun);
  }
  return median(us);
}

void inflight(const std::string& mode, const std::string& kinds, Graph& graph, int count) {
  ready(0);
  const double half_us = expected_us / 2;
  const auto replay = [&] { CUDA(cuGraphLaunch, graph.exec, stream); };
  const auto wait = [](double us) { for (const double end = now_us() + us; now_us() < end;) {} };
  std::vector<Span> spans;
  std::vector<double> us;
  for (int i = 0; i < count; ++i) {
    if (mode == "off" || mode == "next") switch_kinds(0, kinds, true);
    const uint64_t from = timestamp();
    replay();
    if (mode == "off" || mode == "on") wait(half_us);
    const double begun = now_us();
    switch_kinds(0, kinds, mode == "on" || mode == "recorded");
    us.push_back(now_us() - begun);
    if (mode == "next" || mode == "recorded") replay();
    spans.push_back({from, timestamp()});
    CUDA(cuStreamSynchronize, stream);
    if (mode == "on" || mode == "recorded") switch_kinds(0, kinds, false);
    CUPTI(cuptiActivityFlushAll, 0u);
    usleep(1000);
  }
  say("switch_us", median(us));
  say_records(spans);
}

// Records of each thread's stream in each of the windows, and in the pauses between them.
void say_windows(const std::vector<Span>& windows, const std::vector<Span>& pauses, int threads,
                 const std::string& kinds) {
  std::map<uint32_t, std::vector<long>> in_windows, in_pauses;
  const std::lock_guard<std::mutex> guard(records_lock);
  const bool whole = kinds.find('g') != std::string::npos;
  const auto count = [](std::vector<long>& found, const std::vector<Span>& spans, const Record& record) {
    found.resize(spans.size());
    for (size_t i = 0; i < spans.size(); ++i) {
      found[i] += record.start >= spans[i].start && record.start <= spans[i].end;
    }
  };
  long graph_records = 0, node_records = 0, eager_records = 0;
  for (const Record& record : records) {
    const bool is_graph = record.kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
    graph_records += is_graph;
    (record.graph != 0 ? node_records : eager_records) += !is_graph;
    if (!is_graph && record.graph == 0) continue;
    if (is_graph == whole) count(in_windows[record.stream], windows, record);
    else count(in_pauses[record.stream], pauses, record);
  }
  const auto tell = [&](const char* name, std::map<uint32_t, std::vector<long>>& found, size_t spans) {
    long missing = 0, lost = 0;
    const int absent = std::max(0, threads - static_cast<int>(found.size()));
    for (auto& [id, counts] : found) {
      const long empty = std::count(counts.begin(), counts.end(), 0);
      missing += empty;
      lost += std::count(counts.begin() + spans / 2, counts.end(), 0) == static_cast<long>(spans - spans / 2);
    }
    say((std::string(name) + "_missing").c_str(), missing + absent * static_cast<long>(spans));
    say((std::string(name) + "_threads_lost").c_str(), lost + absent);
  };
  tell("windows", in_windows, windows.size());
  tell("pauses", in_pauses, pauses.size());
  say("of", static_cast<double>(threads * windows.size()));
  say("nodes", node_records), say("graphs", graph_records), say("eager", eager_records);
  records.clear();
}

void threads_at_a_switch(const std::string& kinds, int count, int rounds) {
  ready(0);
  std::atomic<bool> stop{false};
  std::atomic<int> waiting{0}, failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      try {
        CUDA(cuCtxSetCurrent, context);
        CUstream own;
        CUDA(cuStreamCreate, &own, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
        CUgraph captured;
        CUgraphExec exec;
        void* parameters[] = {&values};
        CUDA(cuStreamBeginCapture, own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        for (int k = 0; k < 40; ++k) {
          CUDA(cuLaunchKernel, one, 1u, 1u, 1u, 32u, 1u, 1u, 0u, own, static_cast<void**>(parameters),
               static_cast<void**>(nullptr));
        }
        CUDA(cuStreamEndCapture, own, &captured);
        CUDA(cuGraphInstantiate, &exec, captured, 0ull);
        ++waiting;
        while (!stop) {
          for (int k = 0; k < 4; ++k) CUDA(cuGraphLaunch, exec, own);
          CUDA(cuLaunchKernel, one, 1u, 1u, 1u, 32u, 1u, 1u, 0u, own, static_cast<void**>(parameters),
               static_cast<void**>(nullptr));
          CUDA(cuStreamSynchronize, own);
          usleep(1000);
        }
      } catch (const std::exception&) {
        ++failed, ++waiting;
      }
    });
  }
  while (waiting < count) usleep(1000);
  std::vector<Span> windows, pauses;
  const auto span = [&](std::vector<Span>& spans) {
    usleep(5000);
    const uint64_t from = timestamp();
    usleep(100000);
    spans.push_back({from, timestamp()});
  };
  for (int i = 0; i < rounds; ++i) {
    switch_kinds(0, kinds, true);
    span(windows);
    switch_kinds(0, kinds, false);
    span(pauses);
    CUPTI(cuptiActivityFlushAll, 0u);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  say("failed_threads", failed);
  driver.cuCtxSynchronize();
  for (int i = 0; i < 3; ++i) cupti.cuptiActivityFlushAll(0), usleep(5000);
  say_windows(windows, pauses, count, kinds);
}

// Where the launching thread is, taken by a timer.
struct Sampled {
  uint64_t at;
  int launch;
};
constexpr int kMostSampled = 1 << 18;
Sampled sampled[kMostSampled];
volatile int sampled_count = 0, launching = -1;

void on_timer(int, siginfo_t*, void* raw) {
  if (launching < 0 || sampled_count >= kMostSampled) return;
  const auto* interrupted = static_cast<const ucontext_t*>(raw);
  sampled[sampled_count] = {static_cast<uint64_t>(interrupted->uc_mcontext.gregs[REG_RIP]), launching};
  sampled_count = sampled_count + 1;
}

timer_t start_timer(long ns) {
  struct sigaction action = {};
  action.sa_sigaction = on_timer;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGRTMIN + 3, &action, nullptr);
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGRTMIN + 3;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) throw std::runtime_error("no timer");
  const itimerspec each = {{0, ns}, {0, ns}};
  timer_settime(timer, 0, &each, nullptr);
  return timer;
}

struct Place {
  uint64_t from, to;
  std::string name;
};

std::vector<Place> places_of_code() {
  std::vector<Place> all;
  std::ifstream maps("/proc/self/maps");
  std::map<std::string, uint64_t> bases;
  for (std::string text; std::getline(maps, text);) {
    uint64_t from, to;
    char rights[8], path[400] = "";
    if (std::sscanf(text.c_str(), "%lx-%lx %7s %*s %*s %*s %399[^\n]", &from, &to, rights, path) < 3) continue;
    const std::string full = path;
    const std::string name = full.substr(full.rfind('/') == std::string::npos ? 0 : full.rfind('/') + 1);
    const uint64_t base = bases.emplace(name, from).first->second;
    if (rights[2] == 'x') all.push_back({from, to, name + "@" + std::to_string(base)});
  }
  return all;
}

// The most frequent places (64 bytes each) of some launches, and samples a launch.
void say_places(const std::string& name, const std::vector<bool>& wanted, const std::vector<Place>& code) {
  std::map<std::string, int> modules_seen, at;
  long all = 0;
  for (int i = 0; i < sampled_count; ++i) {
    if (!wanted[sampled[i].launch]) continue;
    ++all;
    std::string where = "?", module = "?";
    for (const Place& place : code) {
      if (sampled[i].at < place.from || sampled[i].at >= place.to) continue;
      const size_t sign = place.name.find('@');
      module = place.name.substr(0, sign);
      char text[500];
      std::snprintf(text, sizeof text, "%s+0x%lx", module.c_str(),
                    (sampled[i].at - std::stoul(place.name.substr(sign + 1))) & ~63ul);
      where = text;
    }
    ++modules_seen[module];
    ++at[where];
  }
  const long launches = std::count(wanted.begin(), wanted.end(), true);
  if (launches == 0) return;
  say((name + "_samples_a_launch").c_str(), static_cast<double>(all) / launches);
  const auto list = [&](const std::string& title, const std::map<std::string, int>& found, size_t most) {
    std::vector<std::pair<int, std::string>> sorted;
    for (const auto& [key, count] : found) sorted.push_back({count, key});
    std::sort(sorted.rbegin(), sorted.rend());
    line += ", \"" + name + title + "\": [";
    for (size_t i = 0; i < std::min(most, sorted.size()); ++i) {
      char text[64];
      std::snprintf(text, sizeof text, " %.3f", static_cast<double>(sorted[i].first) / launches);
      line += std::string(i > 0 ? ", " : "") + "\"" + sorted[i].second + text + "\"";
    }
    line += "]";
  };
  list("_modules", modules_seen, 5);
  list("_places", at, 16);
}

// Arithmetic that fills a core: its time tells the clock, and what a neighbour on the same core takes.
double compute_us() {
  const double begun = now_us();
  static volatile uint64_t sink;
  uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (uint64_t i = 0; i < 1500; ++i) {
    for (uint64_t& lane : lanes) {
      lane = (lane << 1) ^ ((lane >> 3) + i);
      asm volatile("" : "+r"(lane));
    }
  }
  for (const uint64_t lane : lanes) sink = sink ^ lane;
  return now_us() - begun;
}

// Hundredths of seconds that the hypervisor took from all processors.
double stolen() {
  std::ifstream file("/proc/stat");
  std::string name;
  double value = NAN;
  file >> name;
  for (int i = 0; i < 8; ++i) file >> value;
  return value;
}

// Dependent reads all over 32 MB: the way to memory.
std::vector<uint32_t> chain;

double memory_us() {
  if (chain.empty()) {
    chain.resize(8 << 20);
    uint32_t at = 0;
    for (size_t i = 0; i < chain.size(); ++i) chain[at] = (at + 2654435u) & (chain.size() - 1), at = chain[at];
  }
  static uint32_t from = 0;
  const double begun = now_us();
  for (int i = 0; i < 50; ++i) from = chain[from];
  return now_us() - begun;
}

struct Measured {
  double launch, whole, compute, memory;
  int before, behind;
};

void say_speeds(const std::vector<Measured>& all) {
  std::vector<double> launches;
  for (const Measured& each : all) launches.push_back(each.launch);
  const double low = at_share(launches, 0.05), high = at_share(launches, 0.95);
  const double between = std::sqrt(low * high);
  say("p5_us", low), say("p95_us", high);
  std::vector<bool> slow, fast;
  std::map<int, std::pair<long, long>> of_cpu;
  long changes = 0, changes_with_cpu = 0, moved = 0;
  std::vector<double> computed[2], remembered[2], times[2];
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_slow = all[i].launch > between && high > 1.25 * low;
    slow.push_back(is_slow), fast.push_back(!is_slow);
    ++of_cpu[all[i].before].first;
    of_cpu[all[i].before].second += is_slow;
    const bool other_cpu = i > 0 && all[i].before != all[i - 1].before;
    moved += other_cpu;
    changes += i > 0 && slow[i] != slow[i - 1];
    changes_with_cpu += i > 0 && slow[i] != slow[i - 1] && other_cpu;
    computed[is_slow].push_back(all[i].compute);
    remembered[is_slow].push_back(all[i].memory);
    times[is_slow].push_back(all[i].launch);
  }
  say("slow_share", static_cast<double>(times[1].size()) / all.size());
  say("moves", moved), say("changes", changes), say("changes_with_move", changes_with_cpu);
  for (const int i : {0, 1}) {
    const std::string name = i == 0 ? "fast" : "slow";
    if (times[i].empty()) continue;
    say((name + "_launch").c_str(), median(times[i]));
    say((name + "_compute").c_str(), median(computed[i]));
    say((name + "_memory").c_str(), median(remembered[i]));
  }
  line += ", \"processors\": [";
  const char* comma = "";
  for (const auto& [cpu, counts] : of_cpu) {
    if (counts.first < 20) continue;
    char text[96];
    std::snprintf(text, sizeof text, "%s\"%d: %ld of %ld\"", comma, cpu, counts.second, counts.first);
    line += text;
    comma = ", ";
  }
  line += "]";
  const auto code = places_of_code();
  say_places("fast", fast, code);
  say_places("slow", slow, code);
}

void speed(Graph& graph, int count) {
  std::vector<Measured> all;
  all.reserve(count);
  memory_us();
  rusage before = {}, behind = {};
  sampled_count = 0;
  const timer_t timer = start_timer(61000);
  getrusage(RUSAGE_THREAD, &before);
  const double stolen_before = stolen();
  for (int i = 0; i < count; ++i) {
    Measured each = {};
    each.compute = compute_us();
    each.memory = memory_us();
    each.before = sched_getcpu();
    const double begun = now_us();
    launching = i;
    CUDA(cuGraphLaunch, graph.exec, stream);
    launching = -1;
    each.launch = now_us() - begun;
    CUDA(cuStreamSynchronize, stream);
    each.whole = now_us() - begun;
    each.behind = sched_getcpu();
    all.push_back(each);
  }
  getrusage(RUSAGE_THREAD, &behind);
  timer_delete(timer);
  std::vector<double> launches, wholes;
  for (const Measured& each : all) launches.push_back(each.launch), wholes.push_back(each.whole);
  say_series("launch", launches);
  say_series("whole", wholes);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec / 1e6; };
  say("user_s", seconds(behind.ru_utime) - seconds(before.ru_utime));
  say("system_s", seconds(behind.ru_stime) - seconds(before.ru_stime));
  say("stolen", stolen() - stolen_before);
  say("faults", behind.ru_minflt - before.ru_minflt);
  say("forced_switches", behind.ru_nivcsw - before.ru_nivcsw);
  say_speeds(all);
  say_records({});
}

// To one of the processors that the process began with, counted from 0.
void pin(const std::string& which) {
  static const cpu_set_t ours = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  cpu_set_t wanted = ours;
  if (which != "all") {
    CPU_ZERO(&wanted);
    for (int cpu = 0, at = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &ours) || at++ != std::stoi(which) % CPU_COUNT(&ours)) continue;
      CPU_SET(cpu, &wanted);
      say("processor", cpu);
    }
  }
  if (sched_setaffinity(0, sizeof wanted, &wanted) != 0) throw std::runtime_error("a thread cannot be pinned");
}

void crowd(int count) {
  for (int i = 0; i < count; ++i) std::thread([] { for (;;) compute_us(); }).detach();
}

void slices(Graph& graph, int ms, int helpers) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < helpers; ++i) {
    threads.emplace_back([&stop] {
      driver.cuCtxSetCurrent(context);
      CUstream own;
      driver.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
      void* parameters[] = {&values};
      while (!stop) {
        for (int k = 0; k < 20; ++k) {
          driver.cuLaunchKernel(many[k % many.size()], 1, 1, 1, 32, 1, 1, 0, own, parameters, nullptr);
        }
        driver.cuStreamSynchronize(own);
        usleep(500);
      }
    });
  }
  std::vector<double> all, medians, worst, slice;
  const double begun = now_us();
  double next = begun + 1e5, most = 0, most_at = 0;
  for (double now = begun; now < begun + ms * 1e3;) {
    CUDA(cuGraphLaunch, graph.exec, stream);
    CUDA(cuStreamSynchronize, stream);
    const double after = now_us();
    slice.push_back(after - now);
    if (after - now > most) most = after - now, most_at = now - begun;
    now = after;
    if (now < next) continue;
    medians.push_back(median(slice));
    worst.push_back(*std::max_element(slice.begin(), slice.end()));
    all.insert(all.end(), slice.begin(), slice.end());
    slice.clear();
    next += 1e5;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  say("whole_median_us", median(all));
  say("replays", all.size());
  double first_s = 0, last_s = 0;
  const size_t tenth = std::min<size_t>(10, medians.size() / 2);
  for (size_t i = 0; i < tenth; ++i) first_s += medians[i] / tenth, last_s += medians[medians.size() - 1 - i] / tenth;
  say("first_over_last", first_s / last_s);
  say("longest_us", most), say("longest_at_us", most_at);
  say_list("slices", medians);
  say_list("slices_longest", worst);
  say_records({});
}

void load_modules(int count) {
  std::vector<CUfunction> all;
  for (int i = 0; i < count; ++i) {
    load_module(kFirst);
    all.insert(all.end(), many.begin(), many.end());
  }
  many = all;
}

// A graph that takes its own times: by events, or by kernels that write the GPU's clock.
struct Marks {
  std::vector<CUevent> by_event;
  unsigned long long* by_kernel = nullptr;
  int count = 0;
  std::vector<double> us;

  // Times since the first mark.
  void read() {
    us.assign(count, 0);
    for (int i = 1; i < count; ++i) {
      if (by_kernel != nullptr) {
        us[i] = (by_kernel[i] - by_kernel[0]) / 1e3;
      } else {
        float ms = 0;
        CUDA(cuEventElapsedTime, &ms, by_event[0], by_event[i]);
        us[i] = ms * 1e3;
      }
    }
  }
};
std::map<std::string, Marks> marked_graphs;

void mark(Marks& marks, bool kernel) {
  const int at = marks.count++;
  if (kernel) {
    unsigned long long* slot = marks.by_kernel + at;
    void* parameters[] = {&slot};
    CUDA(cuLaunchKernel, stamp_kernel, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, static_cast<void**>(parameters),
         static_cast<void**>(nullptr));
  } else {
    CUevent event;
    CUDA(cuEventCreate, &event, static_cast<unsigned>(CU_EVENT_DEFAULT));
    marks.by_event.push_back(event);
    CUDA(cuEventRecordWithFlags, event, stream, static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL));
  }
}

void make_marked(const std::string& name, bool each, bool kernel) {
  load_kernels();
  Marks& marks = marked_graphs[name];
  if (kernel) {
    void* memory = nullptr;
    CUDA(cuMemHostAlloc, &memory, sizeof(unsigned long long) * (nodes + 2), 0u);
    marks.by_kernel = static_cast<unsigned long long*>(memory);
  }
  Graph& graph = graphs[name];
  CUDA(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  mark(marks, kernel);
  for (int i = 0; i < nodes; ++i) {
    launch_node(i);
    if (each || i == nodes - 1) mark(marks, kernel);
  }
  CUDA(cuStreamEndCapture, stream, &graph.captured);
  CUDA(cuGraphInstantiate, &graph.exec, graph.captured, instantiate_flags);
}

void replay_marked(const std::string& name, int count) {
  Graph& graph = graph_of(name);
  Marks& marks = marked_graphs.at(name);
  Timed timed;
  std::vector<double> totals, reads;
  const size_t classes = spins.size() > 1 && marks.count == nodes + 1 ? spins.size() : 0;
  std::vector<std::vector<double>> of_class(classes);
  for (int i = 0; i < count; ++i) {
    timed.add([&] { CUDA(cuGraphLaunch, graph.exec, stream); });
    const double begun = now_us();
    marks.read();
    reads.push_back(now_us() - begun);
    totals.push_back(marks.us.back());
    for (int at = 0; classes > 0 && at < nodes; ++at) of_class[at % classes].push_back(marks.us[at + 1] - marks.us[at]);
  }
  timed.print("");
  say("marks", marks.count);
  say("marked_us", median(totals));
  say("marked_least", at_share(totals, 0)), say("marked_most", at_share(totals, 0.99));
  say("read_us", median(reads));
  std::vector<double> medians;
  for (const auto& all : of_class) medians.push_back(median(all));
  if (classes > 0) say_list("class_us", medians);
  say_records({});
}

void swap_graphs(Graph& usual, Graph& other, int count, int each) {
  Timed of_usual, of_other;
  for (int i = 0; i < count; ++i) {
    const bool is_other = i % each == each - 1;
    (is_other ? of_other : of_usual).add([&] { CUDA(cuGraphLaunch, is_other ? other.exec : usual.exec, stream); });
  }
  of_other.print("on_");
  of_usual.print("");
  say_records({});
}

void start_hes() {
  load();
  if (second_api) subscribe(0, false, on_callback), set_attribute(0, 13, 1);
  else CUPTI(cuptiActivityEnableHWTrace, static_cast<uint8_t>(1));
}

void start_profiler() {
  load();
  CUpti_Profiler_Initialize_Params wanted = {};
  wanted.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
  CUPTI(cuptiProfilerInitialize, &wanted);
}

void set_spins(const std::string& text) {
  spins.clear();
  for (size_t from = 0; from < text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const double us = std::stod(text.substr(from, comma - from));
    if (us > 0) spins.push_back(us);
    from = comma + 1;
  }
  if (!spins.empty()) load_kernels();
}

void make_second(const std::string& name) {
  Graph& other = graphs[name + "2"];
  other.captured = graph_of(name).captured;
  CUDA(cuGraphInstantiate, &other.exec, other.captured, instantiate_flags);
}

// False: it is none of them.
bool run_way(const std::vector<std::string>& words) {
  const std::string& verb = words[0];
  const auto number = [&](size_t at) { return at < words.size() ? std::stoi(words[at]) : 0; };
  if (verb == "spin") set_spins(words.at(1));
  else if (verb == "flags") instantiate_flags = std::stoull(words.at(1));
  else if (verb == "expect") expected_us = words.at(1) == "none" ? 0 : typical_us(graph_of(words.at(1)));
  else if (verb == "shape") {
    Graph& graph = graphs[words.at(1)];
    graph.shape = words.at(2);
    graph.captured = build(graph.shape);
    CUDA(cuGraphInstantiate, &graph.exec, graph.captured, instantiate_flags);
  } else if (verb == "second") make_second(words.at(1));
  else if (verb == "params") change_parameters(graph_of(words.at(1)));
  else if (verb == "enable") enable_half(graph_of(words.at(1)), number(2) != 0);
  else if (verb == "each_update") {
    Graph& graph = graph_of(words.at(1));
    for (int i = 0; i < number(2); ++i) CUDA(cuGraphLaunch, graph.exec, stream), update(graph);
    CUDA(cuStreamSynchronize, stream);
    say_records({});
  } else if (verb == "together") {
    for (int i = 0; i < number(3); ++i) {
      for (int k = 0; k < 20; ++k) CUDA(cuGraphLaunch, graph_of(words.at(k % 2 == 0 ? 1 : 2)).exec, stream);
      CUDA(cuStreamSynchronize, stream);
    }
    say_records({});
  } else if (verb == "inflight") inflight(words.at(1), words.at(2), graph_of(words.at(3)), number(4));
  else if (verb == "threads") threads_at_a_switch(words.at(1), number(2), number(3));
  else if (verb == "speed") speed(graph_of(words.at(1)), number(2));
  else if (verb == "pin") pin(words.at(1));
  else if (verb == "crowd") crowd(number(1));
  else if (verb == "slices") slices(graph_of(words.at(1)), number(2), number(3));
  else if (verb == "modules") load_modules(number(1));
  else if (verb == "marks") make_marked(words.at(1), words.at(2) == "each", words.at(3) == "kernel");
  else if (verb == "marked") replay_marked(words.at(1), number(2));
  else if (verb == "swap") swap_graphs(graph_of(words.at(1)), graph_of(words.at(2)), number(3), number(4));
  else if (verb == "hes") start_hes();
  else if (verb == "profiler") start_profiler();
  else return false;
  return true;
}
