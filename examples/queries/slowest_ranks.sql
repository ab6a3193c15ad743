-- Which ranks take longest for a step, and how far are they behind the fastest?
SELECT job, run, stage, host, rank, instances, host_warm_median_ns, gpu_busy_ns, waiting_ns,
       host_warm_median_ns - min(host_warm_median_ns) OVER (PARTITION BY job, run, stage) AS behind_ns
FROM rank_stages
WHERE rank IS NOT NULL AND host_warm_median_ns IS NOT NULL
ORDER BY job, behind_ns DESC, run, stage, rank
