/*
 * One job, its masters and its peels: claim, publish, take-over, fence, first return and end, with everything that may fail.
 *
 * The model follows the steps of package dispatch, of the buckets active, jobs and job-returns, and of package fence.
 * Between any two steps others may take theirs, and as many troubles as the environment variable TROUBLES says may come in
 * any mixture:
 *
 *   - a master or a peel dies; it comes back under its name and knows nothing but what is stored, or a master stays
 *     away for good, as long as one lives;
 *   - a master that lives is missed by the others, because it was paused or cut off for longer than its heartbeat;
 *   - a write to the bus fails: it was not stored, or it was and nobody said so, or it will be later;
 *   - somebody cancels the job;
 *   - a master stops in peace;
 *   - a peel sends a second return that differs from its first.
 *
 * The job is asked for ASKS times, at any master, also after it has ended: who gets no answer asks again.
 *
 * Requests to peels travel in a set: once sent, one may arrive late, never, or many times, in any order. That stands
 * for loss, duplicates, reordering and requests that are sent again. The bucket job-returns stores the first return of each
 * peel and re-publishes it; each master that listens receives that or does not. Acks are not stored and have no part.
 *
 * Left out, because they add no interleaving of another kind: several jobs, batches, targets beside the record, the payload.
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
#define COUNT_BEFORE_STORED    7  /* a return counts when the peel publishes it */
#define NO_READ                8  /* at its deadline a job ends with what was heard */
#define LISTEN_LATE            9  /* a master listens after it has published, and does not read the bucket */
#define NO_OWN_JOBS           10  /* a master that comes back leaves the jobs it had alone */
#define REMOVED_FIRST         11  /* the record leaves the bucket active before it is in the bucket jobs */
#define RESUME_TAKEN          12  /* who took a running job over, and got no answer, takes it for his own dispatch */
#define LAST_RETURN_WINS      13  /* a later return of a peel replaces the first */
#define NOT_CONFIRMED         14  /* a claim is dispatched without a look for an ended job in the bucket jobs */
#define CONFIRMED_BEFORE      15  /* that look comes before the claim is stored */
#define TAKEN_UNCONFIRMED     16  /* who takes a claim over does not look */
#define COUNT_TWICE           17  /* a return that is heard and read counts twice */

#define NOBODY MASTERS

mtype = { none, claimed, running, complete, ended, canceled, failed };
mtype = { ok, conflict, unknown };

#define FINAL(s) (s == complete || s == ended || s == canceled || s == failed)

/* A record of the bucket active. Returns are sets of bits by peel. */
typedef Record {
  mtype status = none;
  byte owner = NOBODY;
  byte epoch;     /* rises with every change of the owner */
  byte send;      /* the epoch of the requests */
  byte reclaims;
  byte rev;       /* of the write that made it: what the next one must replace; 0: there never was one */
  bool cancel;
  byte counted;   /* the peels whose return a final record counts */
  byte good;      /* those of them that succeeded */
  byte count      /* how many that are */
}

typedef Write { bool pending; bool takes; Record r }

/* What is stored on the bus. */
Record kv;              /* in the bucket active */
byte seq;               /* of the last write of that bucket */
Record old;             /* in the bucket jobs */
byte events;            /* terminal events in the stream */
int sent[PEELS];        /* epochs of the requests on the wire, a set of bits */
byte stored[PEELS];     /* in the bucket job-returns: 0 nothing, 1 a success, 2 a failure */
byte owed[PEELS];       /* published by the peel and not stored yet, as above */
Write held[MASTERS];    /* a write that got no answer and may land yet */

/* What the masters know. */
byte told[MASTERS * PEELS]; /* a return that was re-published to a master, as above */
bool listening[MASTERS];
bool missed[MASTERS + 1];   /* by NOBODY, nobody is */
bool gone[MASTERS];         /* dead for good; one at least is not */
byte alive = MASTERS;

bool deadline;          /* it has passed */
bool inTime[PEELS];     /* the return was stored by then */
byte asks = ASKS;
bool wished; /* somebody has canceled it */

/* What must not happen, noticed where it does. */
bool staleWrite;        /* a write landed on a record that its writer had not read */
bool foreignWrite;      /* a write landed of a process that did not own the job */
byte by = NOBODY;       /* the process that owns it */
bool finalChanged;      /* a final record was replaced */
bool hasEnded;          /* a final record was stored */
bool miscounted;        /* a final record counts a return twice, or one that is not in the bucket as it is there */
bool lost;              /* a return that was there in time was not counted */
byte runs[PEELS];       /* how often the peel ran the job */

#define COUNTED(p) (next.counted & (1 << (p)))
#define ALL ((1 << PEELS) - 1)
#define TOLD(p) told[me * PEELS + p]
/* Who asked for the job was told that this very run of the master could not dispatch it, and may ask again. */
#define RETRYABLE (kv.status == claimed && wrote && !kv.cancel && !deadline)
#define LATER(e, r) ((e > r -> e : r) + 1)

inline put(x, m, new) { /* the bus takes a write of master m */
  staleWrite = staleWrite || x.rev != kv.rev;
  foreignWrite = foreignWrite || (!new && by != m);
  by = (new -> m : by);
  finalChanged = finalChanged || FINAL(kv.status);
  hasEnded = hasEnded || FINAL(x.status);
  copy(kv, x);
  seq++;
  kv.rev = seq
}

inline copy(to, from) {
  to.status = from.status; to.owner = from.owner; to.epoch = from.epoch; to.send = from.send;
  to.reclaims = from.reclaims; to.rev = from.rev; to.cancel = from.cancel;
  to.counted = from.counted; to.good = from.good; to.count = from.count
}

inline blank(x) {
  x.status = none; x.owner = NOBODY; x.epoch = 0; x.send = 0; x.reclaims = 0; x.rev = 0; x.cancel = false;
  x.counted = 0; x.good = 0; x.count = 0
}

/* update writes next over the record that has next's revision. */
inline update(new) {
  if
  :: next.rev == kv.rev || (broken == UNCONDITIONAL_END && FINAL(next.status)) ->
     put(next, me, new); next.rev = kv.rev; out = ok
  :: next.rev != kv.rev && !(broken == UNCONDITIONAL_END && FINAL(next.status)) -> out = conflict
  :: troubles > 0 -> troubles--; out = unknown
  :: troubles > 0 && next.rev == kv.rev -> troubles--; put(next, me, new); out = unknown
  :: troubles > 0 && next.rev == kv.rev && !held[me].pending ->
     troubles--; held[me].pending = true; held[me].takes = new; copy(held[me].r, next); out = unknown
  fi
}

/* land has the bus take a write that was held up, if it still may. */
inline land(m) {
  held[m].pending = false;
  if :: held[m].r.rev == kv.rev -> put(held[m].r, m, held[m].takes) :: else fi;
  blank(held[m].r)
}

/* mayDie ends a step, after which the master may be gone. */
inline mayDie() {
  if
  :: true
  :: troubles > 0 -> troubles--; goto dead
  fi
}

/* add counts the return v of the peel i. */
inline add(i, v) {
  next.count = (COUNTED(i) && broken != COUNT_TWICE -> next.count : next.count + 1);
  next.good = (!COUNTED(i) && v == 1 -> next.good | (1 << i) : next.good);
  next.counted = next.counted | (1 << i)
}

/* readBucket counts the returns that are stored. */
inline readBucket() {
  p = 0;
  do
  :: p < PEELS -> if :: stored[p] && (!COUNTED(p) || broken == COUNT_TWICE) -> add(p, stored[p]) :: else fi; p++
  :: else -> p = 0; break
  od
}

/* reread takes the record as it is now and keeps what was counted. */
inline reread() {
  seen.counted = next.counted; seen.good = next.good; seen.count = next.count;
  copy(next, kv);
  if :: FINAL(next.status) :: else -> next.counted = seen.counted; next.good = seen.good; next.count = seen.count fi;
  blank(seen)
}

/* clear forgets the job. */
inline clear() {
  blank(next); out = 0; ours = 0; p = 0; over = false; found = false; taken = false; listening[me] = false; TOLD(0) = 0;
#if PEELS > 1
  TOLD(1) = 0
#endif
}

/* Each label begins a step, which nothing divides; anything may come between two of them. */
proctype Master(byte me) {
  Record next;    /* the record as it was read or is to be written, with the returns that count */
  Record seen;
  mtype out;
  byte ours;      /* the epoch under which this master owns the job */
  byte p;
  bool over;      /* nothing more is waited for */
  bool wrote;     /* this run of the master has tried to write the record */
  bool found;     /* an ended job of this ID */
  bool taken;     /* the job was another's, or an earlier run's */

idle: skip;
end_idle:
  atomic {
    if
    :: asks > 0 -> asks--; goto create
    :: kv.status != none && (missed[kv.owner] || kv.owner == NOBODY || kv.owner == me && broken != NO_OWN_JOBS && !RETRYABLE) ->
       goto reclaim
    fi
  };

create: skip;
  atomic {
    found = (broken == CONFIRMED_BEFORE && old.status != none);
    if :: broken == CONFIRMED_BEFORE -> mayDie() :: else fi
  };

create_it: skip;
  atomic {
    blank(next);
    next.status = claimed; next.owner = me;
    next.rev = (kv.status == none -> kv.rev : 0); /* the mark of a withdrawn claim, or nothing */
    wrote = true;
    update(true);
    if
    :: out == ok -> next.epoch = next.rev
    :: out == unknown -> goto forget
    :: out == conflict ->
       copy(next, kv);
       if
       :: next.status == claimed && next.owner == me -> next.epoch = (next.epoch > 0 -> next.epoch : next.rev)
       :: next.status == running && next.owner == me && wrote && (next.send == next.epoch || broken == RESUME_TAKEN)
       :: FINAL(next.status) -> goto conclude /* its owner may have died before */
       :: else -> goto forget /* the answer is the job as it is */
       fi
    fi;
    ours = next.epoch;
    mayDie()
  };

confirm: skip;
  atomic {
    if
    :: broken == NOT_CONFIRMED || broken == TAKEN_UNCONFIRMED && taken
    :: broken == CONFIRMED_BEFORE && !taken -> if :: found -> goto withdraw :: else fi
    :: else -> if :: old.status != none -> goto withdraw :: else fi
    fi;
    mayDie();
    goto begin
  };

withdraw: skip; /* leaves a mark, so that no write that is held up lands */
  atomic {
    if
    :: kv.rev == next.rev && kv.status != none -> blank(kv); seq++; kv.rev = seq; by = NOBODY
    :: else
    fi;
    goto forget
  };

begin: skip;
  atomic {
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
    update(false);
    if
    :: out == ok || (out == unknown && broken == UNKNOWN_IS_SUCCESS)
    :: out == unknown && broken != UNKNOWN_IS_SUCCESS -> goto forget
    :: out == conflict ->
       copy(next, kv);
       if
       :: next.owner == me && next.epoch <= ours && next.status == claimed && next.cancel -> over = true; goto finalize
       :: else -> goto forget
       fi
    fi;
    p = 0;
    mayDie()
  };

listen: skip;
  atomic { listening[me] = (broken != LISTEN_LATE); mayDie() };

publish: skip; /* to the targets that have no stored return, as far as this master knows */
  atomic {
    if
    :: COUNTED(p)
    :: else -> sent[p] = sent[p] | (1 << (broken == NEW_EPOCH_TO_PEELS -> ours : next.send))
    fi;
    p++;
    mayDie();
    if
    :: p < PEELS -> goto publish
    :: else -> p = 0; listening[me] = true
    fi
  };

watch: skip;
  atomic {
    if
    :: next.counted == ALL -> goto finalize
    :: TOLD(0) && (!COUNTED(0) || broken == COUNT_TWICE) -> add(0, TOLD(0)); TOLD(0) = 0; goto watch
    :: broken == COUNT_BEFORE_STORED && owed[0] && !COUNTED(0) -> add(0, owed[0]); goto watch
#if PEELS > 1
    :: TOLD(1) && (!COUNTED(1) || broken == COUNT_TWICE) -> add(1, TOLD(1)); TOLD(1) = 0; goto watch
    :: broken == COUNT_BEFORE_STORED && owed[1] && !COUNTED(1) -> add(1, owed[1]); goto watch
#endif
    :: deadline && !over && next.counted != ALL -> over = true; goto last_read
    :: kv.rev != next.rev && (kv.status == none || kv.owner != me || kv.epoch != ours) -> goto forget
    :: kv.owner == me && kv.epoch == ours && kv.cancel && !next.cancel -> reread(); goto watch
    :: next.cancel && next.counted != ALL -> over = true; goto last_read
    :: troubles > 0 -> troubles--; goto release
    :: troubles > 0 -> troubles--; goto dead
    fi
  };

last_read: skip;
  atomic {
    if :: broken == NO_READ || broken == LISTEN_LATE :: else -> readBucket() fi;
    mayDie()
  };

finalize: skip;
  atomic {
    next.status = (next.counted == ALL -> complete : (next.cancel -> canceled : ended));
    update(false);
    if
    :: out == ok ->
       do
       :: p < PEELS ->
          lost = lost || (next.status == ended && inTime[p] && !COUNTED(p));
          p++
       :: else -> p = 0; break
       od;
       mayDie()
    :: out == unknown -> goto finalize
    :: out == conflict ->
       reread();
       if
       :: next.status == none || next.owner != me || next.epoch != ours -> goto forget
       :: else ->
          if
          :: FINAL(next.status)
          :: else -> goto finalize
          fi
       fi
    fi
  };

conclude: skip;
  atomic {
    if
    :: broken == REMOVED_FIRST -> if :: kv.rev == next.rev -> blank(kv) :: else fi; mayDie()
    :: else
    fi;
    finalChanged = finalChanged || (old.status != none && (old.status != next.status || old.counted != next.counted));
    copy(old, next);
    mayDie()
  };

tell: skip;
  atomic {
    if
    :: events == 0 || broken == EVENT_EACH_TIME -> events++
    :: else
    fi;
    mayDie()
  };

remove: skip; /* a purge up to the record's revision, which leaves no mark */
  atomic { if :: kv.rev <= next.rev -> blank(kv) :: else fi; goto forget };

release: skip;
  atomic { next.owner = NOBODY; next.counted = 0; next.good = 0; next.count = 0; update(false); wrote = false; goto forget };

reclaim: skip;
  atomic {
    copy(next, kv);
    if
    :: next.status == none -> goto forget
    :: FINAL(next.status) -> goto conclude
    :: else
    fi
  };

take: skip;
  atomic {
    if
    :: next.owner != NOBODY && next.reclaims >= RECLAIMS ->
       if /* a claim that ends unsent is confirmed as well */
       :: next.status == claimed && old.status != none -> goto withdraw
       :: else -> next.status = failed; readBucket()
       fi
    :: next.owner != NOBODY && next.reclaims < RECLAIMS ->
       next.reclaims++; next.owner = me; next.epoch = LATER(next.epoch, next.rev)
    :: next.owner == NOBODY -> next.owner = me; next.epoch = LATER(next.epoch, next.rev)
    fi;
    update(true);
    if
    :: out == ok -> ours = next.epoch; taken = true
    :: out != ok -> goto forget
    fi;
    mayDie();
    if
    :: next.status == failed -> goto conclude
    :: next.status == claimed && !deadline -> goto confirm
    :: next.status == claimed && deadline -> over = true; goto overdue
    :: next.status == running -> p = 0
    fi
  };

take_over: skip; /* first it listens, then it reads */
  atomic { listening[me] = (broken != LISTEN_LATE); mayDie() };

first_read: skip;
  atomic { if :: broken == LISTEN_LATE :: else -> readBucket() fi; mayDie(); goto publish };

overdue: skip; /* a claim that ends unsent is confirmed as well */
  atomic {
    if
    :: old.status != none && broken != NOT_CONFIRMED && broken != TAKEN_UNCONFIRMED -> goto withdraw
    :: else -> goto finalize
    fi
  };

dead: skip;
  atomic {
    wrote = false;
    if
    :: true /* it is back, under its name, before anybody has missed it, or later */
    :: alive > 1 -> alive--; gone[me] = true; missed[me] = true; clear(); goto end_gone
    fi
  };

forget:
  atomic { clear(); goto idle };

end_gone:
  false
}

/* republish tells a master of a return, unless it does not listen or the message is lost. */
inline republish(m) {
  if
  :: listening[m] -> told[m * PEELS + me] = stored[me]
  :: true
  fi
}

/* A peel: fence on disk, run, outbox on disk. */
proctype Peel(byte me) {
  byte fence; /* on disk: the highest epoch that was admitted */
  byte e;

end_up:
  atomic {
    if
    :: owed[me] && (stored[me] == 0 || broken == LAST_RETURN_WINS) -> /* the outbox is rid of it when the bus has stored it */
       stored[me] = owed[me]; owed[me] = 0; republish(0); republish(1); goto next_one
    :: owed[me] && stored[me] != 0 && broken != LAST_RETURN_WINS -> owed[me] = 0; goto next_one /* or has refused it as the second */
    :: !owed[me] && stored[me] && troubles > 0 -> troubles--; owed[me] = 3 - stored[me]; goto next_one /* a second one that differs */
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
    if
    :: owed[me] = 1
    :: troubles > 0 -> troubles--; if :: broken == RUN_BEFORE_FENCE -> goto next_one :: else -> owed[me] = 2 fi /* its next process says so */
    :: troubles > 0 -> troubles--; goto next_one
    fi;
    fence = e
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
       inTime[0] = stored[0] != 0;
#if PEELS > 1
       inTime[1] = stored[1] != 0;
#endif
     }
  :: atomic { troubles > 0 && kv.owner != NOBODY && !missed[kv.owner] -> troubles--; missed[kv.owner] = true }
  :: atomic { asks > 0 -> asks = 0 } /* who asks has given up */
  :: atomic { missed[0] && !gone[0] -> missed[0] = false }
  :: atomic { missed[1] && !gone[1] -> missed[1] = false }
  :: atomic { troubles > 0 && !wished && kv.status != none && !FINAL(kv.status) -> troubles--; wished = true; kv.cancel = true; seq++; kv.rev = seq }
  :: atomic { held[0].pending -> land(0) }
  :: atomic { held[1].pending -> land(1) }
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
#define AS_STORED(r, p) (!(r.counted & (1 << p)) || (stored[p] == 1 && (r.good & (1 << p))) || (stored[p] == 2 && !(r.good & (1 << p))))
#define COUNTS(r) (AS_STORED(r, 0) && AS_STORED(r, 1) && r.count == (r.counted & 1) + (r.counted >> 1))
#else
#define SENT (sent[0] != 0)
#define RAN_TWICE (runs[0] > 1)
#define AS_STORED(r, p) (!(r.counted & (1 << p)) || (stored[p] == 1 && (r.good & (1 << p))) || (stored[p] == 2 && !(r.good & (1 << p))))
#define COUNTS(r) (AS_STORED(r, 0) && r.count == r.counted)
#endif

/* A record that says claimed was never sent to anybody, unless it is about to be withdrawn for an ended job. */
#define CLAIMED_IS_UNSENT !(kv.status == claimed && SENT && old.status == none)
/* No peel runs a job twice, and so none runs it twice under one epoch. */
#define RUNS_ONCE !RAN_TWICE
/* Who writes has read what he replaces, and owns the job. */
#define FENCED (!staleWrite && !foreignWrite)
/* A job ends once: one final record, the same in both buckets, one terminal event. */
#define ENDS_ONCE (!finalChanged && events <= 1)
/* A job that has ended is in the bucket active or in the bucket jobs; when its end is told it is in the latter. */
#define KEPT ((!hasEnded || FINAL(kv.status) || old.status != none) && (events == 0 || old.status != none))
/* A final record counts each stored return at most once, as it is stored, and none that is not stored. */
#define COUNTED_IS_STORED ((!FINAL(kv.status) || COUNTS(kv)) && (old.status == none || COUNTS(old)))
/* A return that was there when the time was over counts. */
#define NOTHING_LOST !lost

ltl claimed_is_unsent { [] CLAIMED_IS_UNSENT }
ltl runs_once { [] RUNS_ONCE }
ltl fenced { [] FENCED }
ltl ends_once { [] ENDS_ONCE }
ltl kept { [] KEPT }
ltl counted_is_stored { [] COUNTED_IS_STORED }
ltl nothing_lost { [] NOTHING_LOST }
ltl safe { [] (CLAIMED_IS_UNSENT && RUNS_ONCE && FENCED && ENDS_ONCE && KEPT && COUNTED_IS_STORED && NOTHING_LOST) }

/* A job leaves the bucket active, as long as one master lives; if it was sent to anybody, it is in the bucket jobs and told. */
ltl ends { <> [] (kv.status == none && (!SENT || old.status != none && events == 1)) }
