-- Where does the time of kernels go, by class and stage?
SELECT job, stage, class, count(*) AS kernels, CAST(sum(duration_ns) AS BIGINT) AS total_ns
FROM kernels
GROUP BY job, stage, class
ORDER BY job, total_ns DESC, stage, class
