-- Which ranks come late to collectives, how often, and where?
SELECT job, run, stage, host, rank, collectives, late_collectives, late_total_ns, late_max_ns,
       delays, delay_total_ns, range_path
FROM late_ranks
ORDER BY job, late_total_ns DESC, run, stage, rank
