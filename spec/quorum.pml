/*
 * The quorum protocol of bullmq-redlock: two attempts to acquire one resource from three masters.
 *
 *   spin -a quorum.pml && gcc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan
 *   ./pan -r        shows the steps of a counterexample
 *
 * Every block that stands in `atomic` or `d_step` is one step: a Lua script on one master, or what a client does
 * without asking. Commands travel for any time, in any order, and replies may be lost. A client may
 * stop for any time: then it takes no step.
 *
 * What is not taken away stands for a lost message: a command that is never run, a reply that is never
 * used. Rates of clocks stand in TRUST and QUARANTINE. A set of masters is a number with one bit for each.
 *
 * -D  EXTENSIONS=n      extensions, of both attempts together
 *     HAND_OVERS        leases are handed over
 *     RELEASES          clients give up, and release
 *     PROPOSALS=n       an attempt proposes a token of 1 to n
 *     LOSSES=n          times that a master restarts without its memory
 *     WRONG_CLOCK       ... and comes back with a wrong clock, which is set right later
 *     ANY_CLOCKS        clocks are arbitrary: a key may vanish at any moment. Exclusion is not promised
 *     WITHOUT=rule      one of the rules below is taken away, and an assertion fails
 */

/* The rules that can be taken away. A comment with its name stands where the model keeps each. */
#define QUORUM_IS_A_MAJORITY                 1
#define FRESH_TOKEN_PER_ATTEMPT              2
#define HELD_RESOURCE_IS_NOT_GRANTED         3
#define COUNTER_GROWS_WITH_EVERY_GRANT       4
#define A_QUORUM_HAS_EXACTLY_THE_TOKEN       5
#define CONFIRM_ONLY_MY_KEY                  6
#define CONFIRM_COUNTS_THE_EXACT_TOKEN       7
#define TRUST_FROM_BEFORE_THE_FIRST_COMMAND  8
#define DRIFT_MARGIN                         9
#define AS_MANY_HAND_OVERS_AS_TOKENS        10
#define HANDED_OVER_LEASE_IS_NO_LONGER      11
#define EXTEND_ONLY_WITHOUT_A_LATER_GRANT   12
#define EXTEND_CREATES_NO_KEY               13
#define HEAL_ONLY_WITHOUT_A_LATER_GRANT     14
#define NEW_RUN_ID_IS_QUARANTINED           15
#define QUARANTINE_ON_A_MONOTONIC_CLOCK     16
#define HEALED_KEY_DOES_NOT_EXTEND          17
#define MASTER_OUT_OF_LINE_GRANTS_NOTHING   18
#define MASTER_OUT_OF_LINE_EXTENDS_NOTHING  19
#define RELEASE_ONLY_MY_KEY                 20
#define RELEASE_ON_EVERY_MASTER             21
#define ABANDONED_TOKEN_IS_REFUSED          22

#ifndef WITHOUT
#define WITHOUT 0
#endif
#define keeps(rule) (WITHOUT != rule)

#ifndef EXTENSIONS
#define EXTENSIONS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef RELEASES
#define RELEASES 0
#endif
#ifndef HAND_OVERS
#define HAND_OVERS 0
#endif
#ifndef PROPOSALS
#define PROPOSALS 1
#endif

#ifdef ANY_CLOCKS
#define CLOCKS 0
#else
#define CLOCKS 1
#endif

#define MASTERS 3
#define EVERYWHERE 7
#define TOKENS 2           /* that a grant takes: 64 in the code */

/* Ticks by the clocks of masters. A client's clock loses or gains DRIFT in that time at most. */
#define LEASE 2
#define DRIFT 1
/* rule: drift-margin */
#define MARGIN (keeps(DRIFT_MARGIN) -> DRIFT : 0)
#define TRUST (LEASE - MARGIN + DRIFT)       /* counted by the slowest client */
#define QUARANTINE (LEASE + MARGIN - DRIFT)  /* counted by the fastest one */

#define on(m, set) (((set) >> (m)) & 1)
#define add(m, set) set = set | (1 << (m))
#define drop(m, set) set = set & ~(1 << (m))
/* rule: quorum-is-a-majority */
#define quorum(set) (keeps(QUORUM_IS_A_MAJORITY) -> (set) & ((set) - 1) : (set))
#define max(x, y) ((x) > (y) -> (x) : (y))

#define IDLE 0
#define POLLING 1
#define CONFIRMING 2
#define HELD 3
#define OVER 4

typedef Master {
  unsigned holder : 2;     /* who holds the key: 0 nobody, else the token of an attempt */
  unsigned counter : 4;
  unsigned ttl : 3;        /* ticks until the key expires */
  unsigned quarantine : 3; /* ticks until it may grant */
  bit healed;              /* its key was given back in the quarantine that is still on */
  bit wrong                /* it restarted with a wrong clock */
}

typedef Attempt {
  unsigned phase : 3;
  unsigned proposal : 3;
  unsigned counter : 4;    /* of the lease: its first fencing token */
  unsigned passes : 2;     /* how often it was handed over */
  unsigned trust : 3;      /* ticks for which its holder trusts it */
  unsigned renewed : 3;    /* the same, if the extension that is going on is confirmed */
  /* Commands that travel, as sets of the masters that have not run them yet. */
  unsigned acquire : 3;
  unsigned confirm : 3;
  unsigned extend : 3;
  unsigned heal : 3;
  unsigned release : 3;
  /* Answers that count. */
  byte grant[MASTERS];     /* the counter that a master granted, 0 for none */
  unsigned votes : 3;      /* for the question that was asked last */
  unsigned missing : 3;    /* masters that answered an extension with `missing` */
  bit extending;
  bit completed;
  bit released;
  bit passed;              /* a lease with a larger token was complete after this one */
  bit late;                /* ... before the extension that is going on began */
  bit began_after          /* it began when the other one was complete */
}

Master master[MASTERS];
Attempt attempt[2];
unsigned extensions : 2 = EXTENSIONS;
unsigned losses : 2 = LOSSES;

#define M master[m]
#define A attempt[a]
#define B attempt[1 - a]
/* rule: fresh-token-per-attempt */
#define token(a) (keeps(FRESH_TOKEN_PER_ATTEMPT) -> (a) + 1 : 1)
#define first(a) attempt[a].counter
#define last(a) (attempt[a].counter + attempt[a].passes)

/* What is promised. */
hidden byte counter, n; /* scratch */
hidden byte exclusion, keys, increasing_tokens, unique_tokens, continuity, nothing_left;

#define trusts(a) (attempt[a].phase == HELD && attempt[a].trust > 0)
#define holds(a) ((master[0].holder == token(a)) | (master[1].holder == token(a)) << 1 | \
  (master[2].holder == token(a)) << 2)
#define left(a) (attempt[a].released && !(attempt[a].acquire | attempt[a].heal | attempt[a].release) && holds(a) != 0)

inline judge() {
  /* Two holders never trust their leases at the same time. */
  exclusion = !CLOCKS || !(trusts(0) && trusts(1));
  assert(exclusion);
  /* As long as a lease is trusted, a quorum has its key. Where memory is lost, see exclusion. */
  keys = !CLOCKS || LOSSES > 0 || (!trusts(0) || quorum(holds(0))) && (!trusts(1) || quorum(holds(1)));
  assert(keys);
  unique_tokens = !(attempt[0].completed && attempt[1].completed) ||
    last(0) < first(1) || last(1) < first(0);
  assert(unique_tokens);
  /* Of what was released, and has no command on its way, no master has a key. */
  nothing_left = !left(0) && !left(1);
  assert(nothing_left)
}

/* ---- What runs on a master: src/redlock/lua ---- */

inline acquire_lua() {
  drop(m, A.acquire);
  counter = 0;
  if
  :: M.quarantine > 0  /* rule: quarantined-grants-nothing */
  :: M.quarantine == 0 && M.holder == token(a) -> counter = M.counter
  :: M.quarantine == 0 && M.holder != token(a) &&
     (M.holder == 0 || !keeps(HELD_RESOURCE_IS_NOT_GRANTED)) -> /* rule: held-resource-is-not-granted */
     /* rule: counter-grows-with-every-grant */
     counter = M.counter + (keeps(COUNTER_GROWS_WITH_EVERY_GRANT) -> TOKENS : 1);
     counter = max(counter, A.proposal);
     M.counter = counter;
     M.holder = token(a);
     M.ttl = LEASE
  :: else
  fi;
  if
  /* rule: master-out-of-line-grants-nothing */
  :: A.phase == POLLING && counter > 0 && (!M.wrong || !keeps(MASTER_OUT_OF_LINE_GRANTS_NOTHING)) ->
     A.grant[m] = counter
  :: else
  fi
}

inline confirm_lua() {
  drop(m, A.confirm);
  if
  :: M.holder == token(a) || !keeps(CONFIRM_ONLY_MY_KEY) ->  /* rule: confirm-only-my-key */
     M.counter = max(M.counter, A.counter);
     if
     /* rule: confirm-counts-the-exact-token */
     :: A.phase == CONFIRMING && (M.counter == A.counter || !keeps(CONFIRM_COUNTS_THE_EXACT_TOKEN)) ->
        add(m, A.votes)
     :: else
     fi
  :: else
  fi
}

inline extend_lua() {
  drop(m, A.extend);
  if
  /* rule: extend-only-without-a-later-grant */
  :: M.counter > A.counter && keeps(EXTEND_ONLY_WITHOUT_A_LATER_GRANT)
  :: else ->
     if
     /* rule: extend-only-my-key */
     :: M.holder != 0 && M.holder != token(a)
     /* rule: extend-creates-no-key */
     :: M.holder == 0 && keeps(EXTEND_CREATES_NO_KEY) ->
        if
        /* rule: heal-only-after-a-quorum */
        :: A.extending -> add(m, A.missing)
        :: !A.extending && A.phase == HELD -> add(m, A.heal)
        :: else
        fi
     :: else ->
        if
        :: M.holder == 0 || M.holder == token(a) -> M.holder = token(a); M.ttl = LEASE
        :: else
        fi;
        M.counter = max(M.counter, A.counter);
        if
        /* rule: healed-key-does-not-extend, master-out-of-line-extends-nothing */
        :: A.extending && (!M.healed || !keeps(HEALED_KEY_DOES_NOT_EXTEND)) &&
           (!M.wrong || !keeps(MASTER_OUT_OF_LINE_EXTENDS_NOTHING)) -> add(m, A.votes)
        :: else
        fi
     fi
  fi
}

inline heal_lua() {
  drop(m, A.heal);
  if
  /* rule: heal-only-without-a-later-grant */
  :: M.counter > A.counter && keeps(HEAL_ONLY_WITHOUT_A_LATER_GRANT)
  /* rule: heal-only-my-key */
  :: M.holder != 0 && M.holder != token(a)
  :: else ->
     M.holder = token(a);
     M.counter = A.counter;
     M.ttl = LEASE;
     M.healed = M.quarantine > 0
  fi
}

/*
 * A tombstone: an acquire or a heal that still travels is refused when it arrives. Here it is taken
 * away at once. rule: abandoned-token-is-refused
 */
inline release_lua() {
  drop(m, A.release);
  if
  :: keeps(ABANDONED_TOKEN_IS_REFUSED) -> drop(m, A.acquire); drop(m, A.heal)
  :: else
  fi;
  if
  /* rule: release-only-my-key */
  :: M.holder == token(a) || !keeps(RELEASE_ONLY_MY_KEY) -> M.holder = 0; M.ttl = 0; M.healed = 0
  :: else
  fi
}

/* Masters are equal, so the first attempt may as well reach them in their order. */
#define in_order (a == 1 || m == 0 || m == 1 && LOSSES > 0 || !on(m - 1, A.acquire))

/* The commands of an attempt to a master. */
proctype Link(byte a; byte m) {
end:
  do
  :: d_step { on(m, A.acquire) && in_order -> printf("master %d runs acquire of attempt %d\n", m, a); acquire_lua(); judge() }
  :: d_step { on(m, A.confirm) -> printf("master %d runs confirm of attempt %d\n", m, a); confirm_lua(); judge() }
  :: d_step { on(m, A.extend) -> printf("master %d runs extend of attempt %d\n", m, a); extend_lua(); judge() }
  :: d_step { on(m, A.heal) -> printf("master %d runs heal of attempt %d\n", m, a); heal_lua(); judge() }
  :: d_step { on(m, A.release) -> printf("master %d runs release of attempt %d\n", m, a); release_lua(); judge() }
  od
}

/* ---- What a client does: src/redlock/attempt.ts, extend.ts, release.ts ---- */

inline start() {
  A.phase = POLLING;
  A.trust = CLOCKS * TRUST;
  A.acquire = EVERYWHERE;
  A.began_after = B.completed;
  /* Where memory is lost, proposals follow a clock, which moves on by TOKENS meanwhile. */
  if
  :: LOSSES > 0 -> A.proposal = max(B.proposal, (B.completed -> B.counter : 0)) + TOKENS
  :: LOSSES == 0 -> select(n : 1 .. PROPOSALS); A.proposal = n
  fi
}

inline forget_answers() {
  A.grant[0] = 0; A.grant[1] = 0; A.grant[2] = 0;
  A.votes = 0; A.missing = 0
}

#define granted ((A.grant[0] > 0) | ((A.grant[1] > 0) << 1) | ((A.grant[2] > 0) << 2))

inline decide() {
  if
  :: true
  :: granted == EVERYWHERE -> A.grant[0] = 0  /* the third reply comes too late, or never */
  :: granted == EVERYWHERE -> A.grant[1] = 0
  :: granted == EVERYWHERE -> A.grant[2] = 0
  fi;
  A.counter = max(A.grant[0], max(A.grant[1], A.grant[2]));
  n = (A.grant[0] == A.counter) | ((A.grant[1] == A.counter) << 1) | ((A.grant[2] == A.counter) << 2);
  if
  /* rule: a-quorum-has-exactly-the-token */
  :: quorum(n) || !keeps(A_QUORUM_HAS_EXACTLY_THE_TOKEN) -> complete()
  :: else -> forget_answers(); A.phase = CONFIRMING; A.confirm = EVERYWHERE;
     printf("attempt %d asks to confirm %d\n", a, A.counter)
  fi
}

inline complete() {
  forget_answers();
  A.phase = HELD;
  A.completed = 1;
  printf("attempt %d is complete with token %d\n", a, A.counter);
  /* rule: trust-from-before-the-first-command */
  if
  :: keeps(TRUST_FROM_BEFORE_THE_FIRST_COMMAND)
  :: else -> A.trust = CLOCKS * TRUST
  fi;
  B.passed = EXTENSIONS && B.completed && A.counter > B.counter;
  /* With arbitrary clocks, leases overlap: then only one that began later is compared. */
  increasing_tokens = !(CLOCKS && B.completed || A.began_after) || A.counter > B.counter;
  assert(increasing_tokens);
}

inline begin_extension() {
  extensions--;
  forget_answers();
  A.extending = 1;
  A.extend = EVERYWHERE;
  A.renewed = CLOCKS * TRUST;
  A.late = A.passed
}

inline end_extension() {
  /* No other lease was complete between this one and its extension. */
  continuity = !A.late;
  assert(continuity);
  A.extending = 0;
  A.trust = max(A.trust, A.renewed);
  A.renewed = 0;
  A.heal = A.heal | A.missing;
  forget_answers()
}

inline let_go() {
  A.phase = OVER;
  A.trust = 0; A.renewed = 0; A.extending = 0;
  A.released = 1;
  /* rule: release-on-every-master */
  A.release = (keeps(RELEASE_ON_EVERY_MASTER) -> EVERYWHERE : granted);
  forget_answers()
}

#define in_time (!CLOCKS || A.trust > 0)

proctype Client(byte a) {
end:
  do
  :: atomic { A.phase == IDLE && (a == 0 || attempt[0].phase != IDLE && (attempt[0].phase == OVER || keeps(FRESH_TOKEN_PER_ATTEMPT))) ->
       printf("attempt %d starts\n", a); start(); judge() }
  :: atomic { A.phase == POLLING && in_time && quorum(granted) ->
       decide(); judge() }
  :: d_step { A.phase == CONFIRMING && in_time && quorum(A.votes) ->
       complete(); judge() }
  :: d_step { RELEASES && (A.phase == POLLING || A.phase == CONFIRMING || A.phase == HELD) ->
       printf("attempt %d is released\n", a); let_go(); judge() }
  /* rule: as-many-hand-overs-as-tokens */
  :: d_step { HAND_OVERS && A.phase == HELD &&
       (A.passes + 1 < TOKENS || !keeps(AS_MANY_HAND_OVERS_AS_TOKENS) && A.passes < TOKENS) ->
       A.passes++;
       printf("attempt %d is handed over, token %d\n", a, last(a));
       /* rule: handed-over-lease-is-no-longer */
       if
       :: keeps(HANDED_OVER_LEASE_IS_NO_LONGER)
       :: else -> A.trust = TRUST
       fi;
       judge() }
  :: d_step { A.phase == HELD && extensions > 0 && !A.extending ->
       printf("attempt %d begins to extend\n", a); begin_extension(); judge() }
  :: d_step { A.extending && quorum(A.votes) ->
       printf("attempt %d is extended\n", a); end_extension(); judge() }
  od
}

/* ---- Time, and what goes wrong ---- */

inline pass(x) {
  if :: x > 0 -> x-- :: else fi
}

inline tick() {
  for (m : 0 .. MASTERS - 1) {
    pass(M.ttl);
    if :: M.ttl == 0 -> M.holder = 0 :: else fi;
    pass(M.quarantine);
    if :: M.quarantine == 0 -> M.healed = 0 :: else fi
  }
  m = 0;
  for (a : 0 .. 1) {
    pass(A.trust); pass(A.renewed);
    if
    :: A.trust == 0 && A.phase == HELD -> A.phase = OVER;
       A.extending = 0  /* rule: reply-inside-the-old-trust */
    :: else
    fi
  }
  a = 0
}

/*
 * Masters are equal, so it is always the first one that loses its memory. In the code it then refuses
 * what older connections have sent. Here it runs that too.
 */
proctype World() {
  byte m, a;
end:
  do
  :: d_step { CLOCKS -> printf("time passes\n"); tick(); judge() }
  :: d_step { !CLOCKS && master[0].holder > 0 ->
       printf("the key vanishes from master 0\n"); master[0].holder = 0; judge() }
  :: d_step { !CLOCKS && master[1].holder > 0 ->
       printf("the key vanishes from master 1\n"); master[1].holder = 0; judge() }
  :: d_step { !CLOCKS && master[2].holder > 0 ->
       printf("the key vanishes from master 2\n"); master[2].holder = 0; judge() }
  :: d_step { losses > 0 ->
       printf("master 0 restarts without its memory\n");
       losses--;
       M.holder = 0; M.counter = 0; M.ttl = 0; M.healed = 0;
       /* rule: new-run-id-is-quarantined */
       M.quarantine = CLOCKS * (keeps(NEW_RUN_ID_IS_QUARANTINED) -> QUARANTINE : 0);
#ifdef WRONG_CLOCK
       M.wrong = 1;
#endif
       judge() }
  :: d_step { M.wrong ->
       printf("the clock of master 0 is set right\n");
       /* What it stored by the wrong clock expires. */
       M.wrong = 0; M.holder = 0; M.ttl = 0; M.healed = 0;
       /* rule: quarantine-on-a-monotonic-clock */
       if
       :: keeps(QUARANTINE_ON_A_MONOTONIC_CLOCK)
       :: else -> M.quarantine = 0
       fi;
       judge() }
  od
}

init {
  byte a, m;
  atomic {
    run World();
    for (a : 0 .. 1) {
      run Client(a);
      for (m : 0 .. MASTERS - 1) { run Link(a, m) }
    }
  }
}
