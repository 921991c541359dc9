"""What is measured, one workload per file: a `Workload` value and the function that measures it.

| file | what it measures |
|---|---|
| `limits` | the machine: fsyncs per second (L1), rows into SQLite (L2) |
| `w1`, `w2` | steps: the rate of many workflows, and the latency of one |
| `w3` | events, from the call that sends one to the result |
| `w4` | timers: many sleepers that are due at once |
| `w5` | the start of a process on a store with many suspended workflows |
| `w6` | memory and CPU while nothing happens |
| `w7` | the replay of a long history |
| `w8` | growth: W1 on a file with many finished runs |
| `w9` | long loops and wide gathers |

W1 to W5 run on other engines too, through `bench.driver`, with smaller counts for slow ones. The sizes of a case are
chosen so that one run takes seconds. `bench.plan` lists the workloads in order; a new one goes there.
"""
