"""Speed: every figure beside the limit of the machine and beside other engines, in one run. Never a timed test.

A time alone says little: it depends on the machine, the disk and the minute. So each figure is measured together with
two others. The *limit* is what the same machine does with nothing but the necessary work: a bare commit, a bare loop.
The *peers* are other engines, DBOS, edda and Restate, on the same disk with their defaults. What counts are the ratios.

`make bench` runs everything; follow one of its runs:

1. `options` reads the command line, and `plan` makes a list of runs from the workloads (`workloads/`). The contenders
   of a case take turns, repeat by repeat, so a noisy minute disturbs all of them.
2. `runs.Runner` prepares a fresh folder. If the case needs a big store, it is made once (`stores`, `clones`) and
   copied.
3. The run is a fresh process, `python -m bench.child JOB`. A peer runs in its own environment (`peers`), so all that it
   imports besides its driver uses only the standard library: `child`, `job`, `driver`, `figures`, `stopwatch`,
   `workload` and most of `workloads/`.
4. The workload asks its engine through a `Driver` (`driver`, one module per engine in `drivers/`), inside a
   `Stopwatch` that also counts the CPU time of servers and of strangers on the machine.
5. The outcome becomes one JSON line (`results`), whether the run succeeded or not. `tables` and `goals` turn lines into
   text, `page` writes them into `docs/benchmarks.md`, `plot` draws them.

What must not happen: a figure without its repeats, a run on a file system in memory (`__main__` refuses it), a process
that outlives its run, or a test that depends on a time.

| you want | file |
|---|---|
| to add a workload | `workloads/`, and the list in `plan` |
| to add an engine | `drivers/`, `peers` for its packages, `plan.PEERS` |
| the limits | `bare` (a loop), `commits`, `inserts`, `workloads/limits` |
| workloads for durable alone | `sleepers` (W4), `stores`, `clones` (big stores), `walks` (calls per event, untimed) |
| the goals | `goals` |
| a service of several processes under kills | `shared` |
"""
