// The fields of a kernel record by name, and what the words `default` and `min` stand for: for floor.cpp.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <cupti_activity.h>

namespace floor_fields {

struct Field {
  const char* name;
  int id;
};

// The names are those of NVIDIA's header in lower case, without KERNEL_FIELD_.
constexpr Field kFields[] = {
    {"kind", KERNEL_FIELD_KIND},
    {"cache_config_requested", KERNEL_FIELD_CACHE_CONFIG_REQUESTED},
    {"cache_config_executed", KERNEL_FIELD_CACHE_CONFIG_EXECUTED},
    {"shared_memory_config", KERNEL_FIELD_SHARED_MEMORY_CONFIG},
    {"registers_per_thread", KERNEL_FIELD_REGISTERS_PER_THREAD},
    {"partitioned_global_cache_requested", KERNEL_FIELD_PARTITIONED_GLOBAL_CACHE_REQUESTED},
    {"partitioned_global_cache_executed", KERNEL_FIELD_PARTITIONED_GLOBAL_CACHE_EXECUTED},
    {"start", KERNEL_FIELD_START},
    {"end", KERNEL_FIELD_END},
    {"completed", KERNEL_FIELD_COMPLETED},
    {"device_id", KERNEL_FIELD_DEVICE_ID},
    {"context_id", KERNEL_FIELD_CONTEXT_ID},
    {"stream_id", KERNEL_FIELD_STREAM_ID},
    {"grid_x", KERNEL_FIELD_GRID_X},
    {"grid_y", KERNEL_FIELD_GRID_Y},
    {"grid_z", KERNEL_FIELD_GRID_Z},
    {"block_x", KERNEL_FIELD_BLOCK_X},
    {"block_y", KERNEL_FIELD_BLOCK_Y},
    {"block_z", KERNEL_FIELD_BLOCK_Z},
    {"static_shared_memory", KERNEL_FIELD_STATIC_SHARED_MEMORY},
    {"dynamic_shared_memory", KERNEL_FIELD_DYNAMIC_SHARED_MEMORY},
    {"local_memory_per_thread", KERNEL_FIELD_LOCAL_MEMORY_PER_THREAD},
    {"correlation_id", KERNEL_FIELD_CORRELATION_ID},
    {"grid_id", KERNEL_FIELD_GRID_ID},
    {"name", KERNEL_FIELD_NAME},
    {"queued", KERNEL_FIELD_QUEUED},
    {"submitted", KERNEL_FIELD_SUBMITTED},
    {"launch_type", KERNEL_FIELD_LAUNCH_TYPE},
    {"is_shared_memory_carveout_requested", KERNEL_FIELD_IS_SHARED_MEMORY_CARVEOUT_REQUESTED},
    {"shared_memory_carveout_requested", KERNEL_FIELD_SHARED_MEMORY_CARVEOUT_REQUESTED},
    {"shared_memory_executed", KERNEL_FIELD_SHARED_MEMORY_EXECUTED},
    {"graph_node_id", KERNEL_FIELD_GRAPH_NODE_ID},
    {"shmem_limit_config", KERNEL_FIELD_SHMEM_LIMIT_CONFIG},
    {"graph_id", KERNEL_FIELD_GRAPH_ID},
    {"access_policy_window", KERNEL_FIELD_ACCESS_POLICY_WINDOW},
    {"channel_id", KERNEL_FIELD_CHANNEL_ID},
    {"channel_type", KERNEL_FIELD_CHANNEL_TYPE},
    {"cluster_x", KERNEL_FIELD_CLUSTER_X},
    {"cluster_y", KERNEL_FIELD_CLUSTER_Y},
    {"cluster_z", KERNEL_FIELD_CLUSTER_Z},
    {"cluster_scheduling_policy", KERNEL_FIELD_CLUSTER_SCHEDULING_POLICY},
    {"local_memory_total", KERNEL_FIELD_LOCAL_MEMORY_TOTAL},
    {"max_potential_cluster_size", KERNEL_FIELD_MAX_POTENTIAL_CLUSTER_SIZE},
    {"max_active_clusters", KERNEL_FIELD_MAX_ACTIVE_CLUSTERS},
    {"is_device_launched", KERNEL_FIELD_IS_DEVICE_LAUNCHED},
    {"launch_priority", KERNEL_FIELD_LAUNCH_PRIORITY},
    {"execution_model", KERNEL_FIELD_EXECUTION_MODEL},
#if CUPTI_API_VERSION >= 130500
    {"source_graph_id", KERNEL_FIELD_SOURCE_GRAPH_ID},
    {"source_graph_node_id", KERNEL_FIELD_SOURCE_GRAPH_NODE_ID},
#endif
};

constexpr const char* kMin = "kind,start,end,correlation_id";
// What the collector reads of a kernel.
constexpr const char* kDefault =
    "kind,start,end,correlation_id,name,graph_node_id,device_id,context_id,stream_id,grid_x,grid_y,"
    "grid_z,block_x,block_y,block_z,static_shared_memory,dynamic_shared_memory,registers_per_thread,"
    "local_memory_per_thread";

// The fields of a list, the kind first, as CUPTI wants it. Empty for `all`: records as CUPTI defines them.
inline std::vector<Field> chosen(std::string list) {
  if (list == "all") return {};
  if (list == "min") list = kMin;
  if (list == "default") list = kDefault;
  std::vector<Field> fields = {kFields[0]};
  for (size_t from = 0; from <= list.size();) {
    const size_t comma = std::min(list.find(',', from), list.size());
    const std::string name = list.substr(from, comma - from);
    from = comma + 1;
    const Field* found = nullptr;
    for (const Field& field : kFields)
      if (name == field.name) found = &field;
    if (found == nullptr)
      throw std::runtime_error("FLOOR_FIELDS: `" + name + "` is no field of a kernel record; give all, "
                               "default, min, or fields as tests/gpu/floor_fields.h names them");
    bool is_new = true;
    for (const Field& field : fields) is_new = is_new && field.id != found->id;
    if (is_new) fields.push_back(*found);
  }
  return fields;
}

inline const char* name_of(int id) {
  for (const Field& field : kFields)
    if (field.id == id) return field.name;
  return "unknown";
}

}  // namespace floor_fields
