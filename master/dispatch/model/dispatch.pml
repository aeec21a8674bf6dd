/*
 * One job, its masters and its peels: claim, publish, take-over and fence, with everything that may fail.
 *
 * The model follows the steps of package dispatch, package reclaim and package fence. Between any two of them others
 * may take theirs, and so many troubles, as the environment variable TROUBLES says, may come in any mixture:
 *
 *   - a master or a peel dies; it comes back under its name and knows nothing but what is stored, or a master stays
 *     away for good, as long as one lives;
 *   - a master that lives is missed by the others, because it was paused or cut off for longer than its heartbeat;
 *   - a write to the bus fails: it was not stored, or it was and nobody said so, or it will be later;
 *   - somebody cancels the job;
 *   - a master stops in peace.
 *
 * The job is asked for ASKS times, at any master: who gets no answer asks again.
 *
 * Requests to peels travel in a set: once sent, one may arrive late, never, or many times, in any order. That stands
 * for loss, duplicates, reordering and the second sending at the end of the acknowledgement window. Returns are in
 * the stream when the peel's outbox is rid of them, which is a step of its own.
 *
 * Left out, because they add no interleaving of another kind: several jobs, batches, the payload.
 *
 * The properties stand at the end. The environment variable BROKEN picks one rule to break, as numbered below; `check`
 * shows that spin finds each.
 */

#define MASTERS 2
#ifndef PEELS
#define PEELS 1
#endif
#define ASKS 2
#define RECLAIMS 3 /* then the job is failed */

/* They are read when the search begins, so that one build checks all. */
hidden byte broken = 0;
byte troubles;

c_decl {
  \#include <stdlib.h>
}

#define PUBLISH_BEFORE_RUNNING 1  /* requests are sent before the record says running */
#define UNKNOWN_IS_SUCCESS     2  /* a write without an answer counts as written */
#define RUN_BEFORE_FENCE       3  /* a peel runs a job and records that afterwards */
#define NEW_EPOCH_TO_PEELS     4  /* who takes a running job over sends its requests under the raised epoch */
#define UNCONDITIONAL_END      5  /* the final record replaces whatever is there */
#define EVENT_EACH_TIME        6  /* the terminal event is put whether or not it is there */
#define COUNT_BEFORE_STORED    7  /* a return counts before it is in the bucket */
#define NO_REPLAY              8  /* at its deadline a job ends with what was heard */
#define INDEX_AFTER_RECORD     9  /* the index is written when the record is there */
#define NO_OWN_JOBS           10  /* a master that comes back leaves the jobs it had alone */
#define INDEX_REMOVED_FIRST   11  /* the index is cleared before the end is told */
#define RESUME_TAKEN          12  /* who took a running job over, and got no answer, takes it for his own dispatch */

#define NOBODY MASTERS

mtype = { none, claimed, running, complete, ended, canceled, failed };
mtype = { ok, conflict, unknown };

#define FINAL(s) (s == complete || s == ended || s == canceled || s == failed)

typedef Record {
  mtype status = none;
  byte owner = NOBODY;
  byte epoch;     /* rises with every change of the owner */
  byte send;      /* the epoch of the requests */
  byte reclaims;
  byte rev;       /* of the write that made it: what the next one must replace */
  bool cancel
};

typedef Write { bool pending; Record r };

/* What is stored on the bus. */
Record kv;
bool index;             /* the job is in the index of active jobs */
byte events;            /* terminal events in the stream */
int sent[PEELS];        /* epochs of the requests on the wire, a set of bits */
bool returned[PEELS];   /* in the stream */
bool stored[PEELS];     /* in the bucket of returns */
Write held[MASTERS];    /* a write that got no answer and may land yet */

/* What the masters know of each other. */
bool missed[MASTERS + 1]; /* by NOBODY, nobody is */
bool gone[MASTERS];       /* dead for good; one at least is not */
byte alive = MASTERS;

bool deadline;          /* it has passed */
bool inTime[PEELS];     /* the return was in the stream by then */
byte asks = ASKS;
bool wished; /* somebody has canceled it */

/* What must not happen, noticed where it does. */
bool staleWrite;        /* a write landed on a record that its writer had not read */
bool finalChanged;      /* a final record was replaced */
bool uncounted;         /* a final record counts a return that is not in the bucket */
bool lost;              /* a return that was there in time was not counted */
byte runs[PEELS];       /* how often the peel ran the job */

inline put(x) { /* the bus takes a write */
  staleWrite = staleWrite || x.rev != kv.rev;
  finalChanged = finalChanged || FINAL(kv.status);
  kv.status = x.status; kv.owner = x.owner; kv.epoch = x.epoch; kv.send = x.send;
  kv.reclaims = x.reclaims; kv.cancel = x.cancel;
  kv.rev++
}

inline copy(to, from) {
  to.status = from.status; to.owner = from.owner; to.epoch = from.epoch; to.send = from.send;
  to.reclaims = from.reclaims; to.rev = from.rev; to.cancel = from.cancel
}

inline blank(x) {
  x.status = none; x.owner = NOBODY; x.epoch = 0; x.send = 0; x.reclaims = 0; x.rev = 0; x.cancel = false
}

/* update writes next over the record that has next's revision. */
inline update() {
  if
  :: next.rev == kv.rev || (broken == UNCONDITIONAL_END && FINAL(next.status)) ->
     put(next); next.rev = kv.rev; out = ok
  :: next.rev != kv.rev && !(broken == UNCONDITIONAL_END && FINAL(next.status)) -> out = conflict
  :: troubles > 0 -> troubles--; out = unknown
  :: troubles > 0 && next.rev == kv.rev -> troubles--; put(next); out = unknown
  :: troubles > 0 && next.rev == kv.rev && !held[me].pending ->
     troubles--; held[me].pending = true; copy(held[me].r, next); out = unknown
  fi
}

/* mayDie ends a step, after which the master may be gone. */
inline mayDie() {
  if
  :: true
  :: troubles > 0 -> troubles--; goto dead
  fi
}

inline hear(p) { stored[p] = true; counted = counted | (1 << p) }

#define COUNTED(p) (counted & (1 << (p)))
#define ALL ((1 << PEELS) - 1)
/* Who asked for the job was told that this very run of the master could not dispatch it, and may ask again. */
#define RETRYABLE (kv.status == claimed && wrote && !kv.cancel && !deadline)
#define LATER(e, r) ((e > r -> e : r) + 1)

/* Each label begins a step, which nothing divides; anything may come between two of them. */
proctype Master(byte me) {
  Record next;    /* the record as it was read or is to be written */
  mtype out;
  byte ours;      /* the epoch under which this master owns the job */
  byte counted;   /* targets whose return counts, a set of bits */
  byte p;
  bool over;      /* nothing more is waited for */
  bool wrote;     /* this run of the master has tried to write the record */

idle: skip;
end_idle:
  atomic {
    if
    :: asks > 0 -> asks--; goto index_it
    :: index && kv.status != none && (missed[kv.owner] || kv.owner == NOBODY || kv.owner == me && broken != NO_OWN_JOBS && !RETRYABLE) ->
       goto reclaim
    fi
  };

index_it: skip;
  atomic {
    if
    :: broken != INDEX_AFTER_RECORD -> index = true
    :: broken == INDEX_AFTER_RECORD
    :: troubles > 0 -> troubles--; goto forget
    fi;
    mayDie()
  };

create: skip;
  atomic {
    blank(next);
    next.status = claimed; next.owner = me;
    wrote = true;
    update();
    if
    :: out == ok -> next.epoch = next.rev
    :: out == unknown -> goto forget
    :: out == conflict ->
       copy(next, kv);
       if
       :: next.status == claimed && next.owner == me -> next.epoch = (next.epoch > 0 -> next.epoch : next.rev)
       :: next.status == running && next.owner == me && wrote && (next.send == next.epoch || broken == RESUME_TAKEN)
       :: else -> goto forget /* the answer is the job as it is */
       fi
    fi;
    ours = next.epoch;
    mayDie()
  };

begin: skip;
  atomic {
    if
    :: broken == INDEX_AFTER_RECORD -> index = true; mayDie()
    :: else
    fi;
    if
    :: next.cancel -> over = true; goto finalize
    :: else
    fi;
    if
    :: broken == PUBLISH_BEFORE_RUNNING -> sent[0] = sent[0] | (1 << ours); mayDie()
    :: else
    fi
  };

to_running: skip;
  atomic {
    next.status = running; next.send = ours; next.epoch = ours;
    update();
    if
    :: out == ok || (out == unknown && broken == UNKNOWN_IS_SUCCESS)
    :: out == unknown && broken != UNKNOWN_IS_SUCCESS -> goto forget
    :: out == conflict ->
       copy(next, kv);
       if
       :: next.owner == me && next.status == claimed && next.cancel -> ours = next.epoch; over = true; goto finalize
       :: else -> goto forget
       fi
    fi;
    p = 0;
    mayDie()
  };

publish: skip;
  atomic {
    sent[p] = sent[p] | (1 << (broken == NEW_EPOCH_TO_PEELS -> ours : next.send));
    p++;
    mayDie();
    if
    :: p < PEELS -> goto publish
    :: else -> p = 0
    fi
  };

watch: skip;
  atomic {
    if
    :: counted == ALL -> goto finalize
    :: !COUNTED(0) && returned[0] -> p = 0; goto store
#if PEELS > 1
    :: !COUNTED(1) && returned[1] -> p = 1; goto store
#endif
    :: deadline && !over && counted != ALL -> over = true; p = 0; goto replay
    :: kv.owner != me || kv.epoch != ours -> goto forget
    :: kv.owner == me && kv.epoch == ours && kv.cancel && !next.cancel -> copy(next, kv); goto watch
    :: next.cancel && counted != ALL -> over = true; p = 0; goto replay
    :: troubles > 0 -> troubles--; goto release
    :: troubles > 0 -> troubles--; goto dead
    fi
  };

store: skip;
  atomic {
    if
    :: broken == COUNT_BEFORE_STORED -> counted = counted | (1 << p); p = 0; goto watch /* and the bucket never gets it */
    :: else -> hear(p); p = 0; mayDie(); goto watch
    fi
  };

replay: skip;
  atomic {
    do
    :: p < PEELS ->
       if
       :: returned[p] && !COUNTED(p) && broken != NO_REPLAY -> hear(p)
       :: else
       fi;
       p++
    :: else -> p = 0; break
    od;
    mayDie()
  };

finalize: skip;
  atomic {
    next.status = (counted == ALL -> complete : (next.cancel -> canceled : ended));
    update();
    if
    :: out == ok ->
       do
       :: p < PEELS ->
          uncounted = uncounted || (COUNTED(p) && !stored[p]);
          lost = lost || (next.status == ended && inTime[p] && !COUNTED(p));
          p++
       :: else -> p = 0; break
       od;
       mayDie()
    :: out == unknown -> goto finalize
    :: out == conflict ->
       copy(next, kv);
       if
       :: next.owner != me || next.epoch != ours -> goto forget
       :: next.owner == me && next.epoch == ours && FINAL(next.status)
       :: else -> goto finalize
       fi
    fi
  };

conclude: skip;
  atomic {
    if
    :: broken == INDEX_REMOVED_FIRST -> index = false; mayDie()
    :: else
    fi;
    if
    :: events == 0 || broken == EVENT_EACH_TIME -> events++
    :: else
    fi;
    mayDie()
  };

remove: skip;
  atomic { index = false; goto forget };

release: skip;
  atomic { next.owner = NOBODY; update(); wrote = false; goto forget };

reclaim: skip;
  atomic { copy(next, kv); if :: FINAL(next.status) -> goto conclude :: else fi };

take: skip;
  atomic {
    if
    :: next.owner != NOBODY && next.reclaims >= RECLAIMS -> next.status = failed
    :: next.owner != NOBODY && next.reclaims < RECLAIMS ->
       next.reclaims++; next.owner = me; next.epoch = LATER(next.epoch, next.rev)
    :: next.owner == NOBODY -> next.owner = me; next.epoch = LATER(next.epoch, next.rev)
    fi;
    update();
    if
    :: out == ok -> ours = next.epoch
    :: out != ok -> goto forget
    fi;
    mayDie();
    if
    :: next.status == failed -> goto conclude
    :: next.status == claimed && !deadline -> goto begin
    :: next.status == claimed && deadline -> over = true; goto finalize
    :: next.status == running -> p = 0; goto publish /* to those of which nothing is known */
    fi
  };

dead: skip;
  atomic {
    wrote = false;
    if
    :: true /* it is back, under its name, before anybody has missed it, or later */
    :: alive > 1 -> alive--; gone[me] = true; missed[me] = true; blank(next); out = 0; ours = 0; counted = 0; p = 0; over = false; goto end_gone
    fi
  };

forget:
  atomic { blank(next); out = 0; ours = 0; counted = 0; p = 0; over = false; goto idle };

end_gone:
  false
}

/* A peel: fence on disk, run, outbox on disk. */
proctype Peel(byte me) {
  byte fence; /* on disk: the highest epoch that was admitted */
  byte e;
  bool owed;  /* on disk: a return is in the outbox */

end_up:
  atomic {
    if
    :: owed -> owed = false; returned[me] = true; goto next_one
    :: sent[me] >> (fence + 1) != 0 -> /* an epoch up to the fence's is not run again */
       e = fence + 1;
       do
       :: sent[me] >> (e + 1) != 0 -> e++
       :: sent[me] & (1 << e) -> break
       od
    fi;
    if
    :: broken != RUN_BEFORE_FENCE ->
       fence = e;
       if :: true :: troubles > 0 -> troubles--; goto next_one fi
    :: else
    fi;
    runs[me]++;
    if :: true :: troubles > 0 -> troubles--; goto next_one fi;
    fence = e;
    owed = true
  };
next_one:
  e = 0;
  goto end_up
}

/* What comes from outside. */
proctype World() {
end_world:
  do
  :: atomic { kv.status != none && !deadline ->
       deadline = true;
       inTime[0] = returned[0];
#if PEELS > 1
       inTime[1] = returned[1];
#endif
     }
  :: atomic { troubles > 0 && kv.owner != NOBODY && !missed[kv.owner] -> troubles--; missed[kv.owner] = true }
  :: atomic { asks > 0 -> asks = 0 } /* who asks has given up */
  :: atomic { missed[0] && !gone[0] -> missed[0] = false }
  :: atomic { missed[1] && !gone[1] -> missed[1] = false }
  :: atomic { troubles > 0 && !wished && kv.status != none && !FINAL(kv.status) -> troubles--; wished = true; kv.cancel = true; kv.rev++ }
  :: atomic { held[0].pending -> held[0].pending = false; if :: held[0].r.rev == kv.rev -> put(held[0].r) :: else fi }
  :: atomic { held[1].pending -> held[1].pending = false; if :: held[1].r.rev == kv.rev -> put(held[1].r) :: else fi }
  od
}

init {
  byte i;
  c_code {
    broken = getenv("BROKEN") ? atoi(getenv("BROKEN")) : 0;
    now.troubles = getenv("TROUBLES") ? atoi(getenv("TROUBLES")) : 1;
  };
  atomic {
    for (i : 0 .. MASTERS - 1) { run Master(i) }
    for (i : 0 .. PEELS - 1) { run Peel(i) }
    run World()
  }
}

#if PEELS > 1
#define SENT (sent[0] || sent[1])
#define RAN_TWICE (runs[0] > 1 || runs[1] > 1)
#define ALL_STORED (stored[0] && stored[1])
#else
#define SENT (sent[0] != 0)
#define RAN_TWICE (runs[0] > 1)
#define ALL_STORED (stored[0])
#endif

/* A record that says claimed was never sent to anybody. */
#define CLAIMED_IS_UNSENT !(kv.status == claimed && SENT)
/* No peel runs a job twice, and so none runs it twice under one epoch. */
#define RUNS_ONCE !RAN_TWICE
/* Who writes has read what he replaces: a stale owner's write never lands. */
#define FENCED !staleWrite
/* A job ends once: one final record, one terminal event. */
#define ENDS_ONCE (!finalChanged && events <= 1)
/* What a final record counts is stored. */
#define COUNTED_IS_STORED (!uncounted && (kv.status == complete -> ALL_STORED))
/* A return that was there when the time was over counts. */
#define NOTHING_LOST !lost

ltl claimed_is_unsent { [] CLAIMED_IS_UNSENT }
ltl runs_once { [] RUNS_ONCE }
ltl fenced { [] FENCED }
ltl ends_once { [] ENDS_ONCE }
ltl counted_is_stored { [] COUNTED_IS_STORED }
ltl nothing_lost { [] NOTHING_LOST }
ltl safe { [] (CLAIMED_IS_UNSENT && RUNS_ONCE && FENCED && ENDS_ONCE && COUNTED_IS_STORED && NOTHING_LOST) }

/* A job that was recorded ends, is told, and leaves the index, as long as one master lives. */
ltl ends { <> [] (kv.status == none || FINAL(kv.status) && events == 1 && !index) }
