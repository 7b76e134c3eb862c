/*
 * The lines of one queue: four jobs of two resources, and two workers.
 *
 *   spin -a line.pml && gcc -DSAFETY -DNOREDUCE -o pan pan.c && ./pan
 *
 * Every `d_step` is one script in the queue's Redis, or the end of a worker. A line is advice: it
 * says whose turn it is. The lease, which quorum.pml specifies, decides. A script that ends a job also
 * fetches the next one in the code. Here the fetch is a step of its own, so other steps may come between.
 *
 * Jobs are numbered by the scores of their places. A set of jobs is a number with one bit for each.
 *
 * -D  SLOTS=n       jobs of a line that may run at once: 1 or 2
 *     CRASHES=n     workers that die with a job, which BullMQ then finds stalled
 *     REMOVALS=n    jobs that a user removes
 *     DELETIONS=n   jobs whose hash another tool deletes: their places stay, and a sweep has to come
 *     PRIORITIES    jobs are added in any order: a later one may have an earlier place
 *     WITHOUT=rule  one of the rules below is taken away, and then something goes wrong
 */

/* The rules that can be taken away. A comment with its name stands where the model keeps each. */
#define AS_MANY_HEADS_AS_SLOTS          1
#define TURN_ONLY_AT_THE_HEAD           2
#define FETCHED_JOB_IS_AT_THE_HEAD      3
#define WOKEN_AT_THE_HEAD_OF_ALL_LINES  4
#define JOB_THAT_LEAVES_WAKES_THE_NEXT  5
#define REMOVED_JOB_WAKES_THE_NEXT      6
#define DEAD_PLACES_ARE_DROPPED         7

#ifndef WITHOUT
#define WITHOUT 0
#endif
#define keeps(rule) (WITHOUT != rule)
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef REMOVALS
#define REMOVALS 0
#endif
#ifndef DELETIONS
#define DELETIONS 0
#endif
#ifdef PRIORITIES
#define IN_ORDER 0
#else
#define IN_ORDER 1
#endif

#define JOBS 4
#define NO_JOB JOBS
#define RESOURCES 2
/* Job 1 has both resources. */
#define wants(j, r) (r == 0 -> j != 2 : j == 1 || j == 2)

#define NEW 0       /* not added yet */
#define WAITING 1   /* a worker may fetch it */
#define SLEEPING 2  /* in BullMQ's `delayed`, behind others of its lines */
#define ACTIVE 3
#define ENDED 4     /* finished, removed or deleted */

byte state[JOBS];
byte line[RESOURCES];               /* the places of a line */
byte living;                        /* jobs that are there and have not finished */
byte running;                       /* jobs that were told that it is their turn */
byte stalled;                       /* jobs whose worker has died */
byte job[2] = NO_JOB;               /* of each worker */
byte crashes = CRASHES, removals = REMOVALS, deletions = DELETIONS;
hidden byte j;

#define bit_of(j) (1 << (j))
#define on(j, set) (((set) >> (j)) & 1)
#define add(j, set) set = set | bit_of(j)
#define drop(j, set) set = set & ~bit_of(j)

/* line.lua: the places before that of a job. rule: dead-places-are-dropped */
#define before(j, r) (line[r] & (keeps(DEAD_PLACES_ARE_DROPPED) -> living : 255) & (bit_of(j) - 1))
/* Fewer than SLOTS of them. rule: as-many-heads-as-slots */
#define few(set) (!keeps(AS_MANY_HEADS_AS_SLOTS) || (SLOTS == 1 -> (set) == 0 : ((set) & ((set) - 1)) == 0))
#define is_head(j, r) (on(j, line[r]) && few(before(j, r)))
/* rule: turn-only-at-the-head */
#define is_turn(j) (!keeps(TURN_ONLY_AT_THE_HEAD) || \
  (!wants(j, 0) || is_head(j, 0)) && (!wants(j, 1) || is_head(j, 1)))

/* What is promised, told by the jobs and not by their places. */
hidden byte in_turn, one_a_slot, no_start_in_vain;
#define ahead(j, r) (living & (bit_of(j) - 1) & (r == 0 -> 11 : 6))
#define fewer(set) (SLOTS == 1 -> (set) == 0 : ((set) & ((set) - 1)) == 0)
#define at_most_slots(set) (SLOTS == 1 -> ((set) & ((set) - 1)) == 0 : \
  (((set) & ((set) - 1)) & (((set) & ((set) - 1)) - 1)) == 0)

inline starts(w) {
  printf("job %d starts\n", job[w]);
  in_turn = (!wants(job[w], 0) || fewer(ahead(job[w], 0))) && (!wants(job[w], 1) || fewer(ahead(job[w], 1)));
  assert(in_turn);
  add(job[w], running);
  /* A job with a higher priority does not wait for one that runs: the lease lets it wait. */
  one_a_slot = !IN_ORDER || at_most_slots(running & 11) && at_most_slots(running & 6);
  assert(one_a_slot)
}

/* line.lua: wakes the heads of a line that sleep. */
inline wake_heads(r) {
  for (j : 0 .. JOBS - 1) {
    if
    /* rule: woken-at-the-head-of-all-lines */
    :: state[j] == SLEEPING && is_head(j, r) && (is_turn(j) || !keeps(WOKEN_AT_THE_HEAD_OF_ALL_LINES)) ->
       state[j] = WAITING
    :: else
    fi
  }
  j = 0
}

inline wake_all() { wake_heads(0); wake_heads(1) }

/* add.lua: it sleeps where as many living jobs as slots stand in one of its lines. */
#define is_full(r) (keeps(AS_MANY_HEADS_AS_SLOTS) && !fewer(line[r] & living))
inline add_job(id) {
  if
  :: wants(id, 0) && is_full(0) || wants(id, 1) && is_full(1) -> state[id] = SLEEPING
  :: else -> state[id] = WAITING
  fi;
  wake_all();
  add(id, living);
  if :: wants(id, 0) -> add(id, line[0]) :: else fi;
  if :: wants(id, 1) -> add(id, line[1]) :: else fi
}

/* A job leaves its lines. rule: job-that-leaves-wakes-the-next */
inline leave(id) {
  drop(id, line[0]);
  drop(id, line[1]);
  if :: keeps(JOB_THAT_LEAVES_WAKES_THE_NEXT) -> wake_all() :: else fi
}

#define waits(j) (state[j] == WAITING)
#define some_wait (waits(0) || waits(1) || waits(2) || waits(3))
proctype Worker(byte w) {
  byte turn;
end:
  do
  /* turn.lua: the fetch says whether it is the job's turn. */
  :: atomic { job[w] == NO_JOB && some_wait ->
       if
       :: waits(0) -> job[w] = 0
       :: waits(1) -> job[w] = 1
       :: waits(2) -> job[w] = 2
       :: waits(3) -> job[w] = 3
       fi;
       state[job[w]] = ACTIVE;
       printf("worker %d fetches job %d\n", w, job[w]);
       /* rule: fetched-job-is-at-the-head */
       turn = is_turn(job[w]) || !keeps(FETCHED_JOB_IS_AT_THE_HEAD);
       no_start_in_vain = turn || !IN_ORDER;
       assert(no_start_in_vain);
       if :: turn -> starts(w) :: else fi }
  /* park.lua: looks again, and wakes the heads in the same script. */
  :: d_step { job[w] != NO_JOB && !turn ->
       if
       :: is_turn(job[w]) -> turn = 1; starts(w)
       :: else -> printf("job %d is parked\n", job[w]); state[job[w]] = SLEEPING; wake_all(); job[w] = NO_JOB
       fi }
  /* finish.lua */
  :: d_step { job[w] != NO_JOB && turn ->
       printf("job %d ends\n", job[w]);
       state[job[w]] = ENDED;
       drop(job[w], living);
       drop(job[w], running);
       leave(job[w]);
       job[w] = NO_JOB; turn = 0 }
  :: d_step { job[w] != NO_JOB && crashes > 0 ->
       printf("worker %d dies with job %d\n", w, job[w]);
       crashes--;
       drop(job[w], running);
       add(job[w], stalled);
       job[w] = NO_JOB; turn = 0 }
  od
}

/* What happens to one job from outside. */
proctype Job(byte id) {
end:
  do
  :: d_step { state[id] == NEW && (!IN_ORDER || id == 0 || state[id - 1] != NEW) ->
       printf("job %d is added\n", id); add_job(id) }
  /* BullMQ puts a stalled job back; it keeps its places. */
  :: d_step { on(id, stalled) -> printf("job %d is found stalled\n", id); drop(id, stalled); state[id] = WAITING }
  /* remove.lua, of a job that does not run. */
  :: d_step { removals > 0 && (state[id] == WAITING || state[id] == SLEEPING) ->
       printf("job %d is removed\n", id);
       removals--;
       state[id] = ENDED;
       drop(id, living);
       /* rule: removed-job-wakes-the-next */
       if :: keeps(REMOVED_JOB_WAKES_THE_NEXT) -> leave(id) :: else fi }
  :: d_step { deletions > 0 && (state[id] == WAITING || state[id] == SLEEPING) ->
       printf("the hash of job %d is deleted\n", id);
       deletions--;
       state[id] = ENDED;
       drop(id, living) }
  od
}

/* sweep.lua */
#define sleeps_at_the_head(j) (state[j] == SLEEPING && is_turn(j))
#define owes (sleeps_at_the_head(0) || sleeps_at_the_head(1) || sleeps_at_the_head(2) || sleeps_at_the_head(3))
proctype Sweep() {
end:
  do
  :: d_step { DELETIONS > 0 && owes -> printf("a sweep wakes heads\n"); wake_all() }
  od
}

init {
  atomic {
    run Worker(0); run Worker(1);
    run Job(0); run Job(1); run Job(2); run Job(3);
    run Sweep()
  }
  /* Blocks for good where a job is forgotten: Spin reports an invalid end state. */
  state[0] == ENDED && state[1] == ENDED && state[2] == ENDED && state[3] == ENDED
}
