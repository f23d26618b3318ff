//! A model of the lock and the baton, run over many interleavings of threads by [`shuttle`].
//!
//! What is real: the whole [`State`] of a scope, and so the queue, the baton, the outcomes and the pace; the tickets' looks,
//! abandoned tickets, ends of calls, closings, changes of limits; and the order "read the clock, take the lock, decide,
//! let the lock go, wake". What is modelled: the lock is shuttle's, a task is a thread with one bit "woken", a timer is an entry
//! in a clock that jumps from timer to timer whenever the scheduler likes, so timers fire late in every possible
//! order. Not covered: tokio's timer itself, the map of scopes, and the atomics inside of `Arc` and `Waker`.
//!
//! Where a wake-up is lost, nobody holds a timer while somebody waits, or a slot is never handed on, all threads
//! stand still and shuttle reports a deadlock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use shuttle::rand::{Rng as _, thread_rng};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use super::cell::{Answer, Outcome, Request, Wakers};
use super::queue::{Number, Priority};
use super::state::{Bounds, State};
use crate::clock::{self, Draws};
use crate::pace::{Cost, Limits, Rules, Sent};
use crate::units::QuotaUnit;

/// Schedules of each scenario.
const SCHEDULES: usize = 200;

#[derive(Default)]
struct Clock {
    now: Duration,
    timers: BTreeMap<Number, Duration>,
    woken: BTreeSet<Number>,
    /// Callers that are not done.
    callers: usize,
}

struct World {
    epoch: Instant,
    state: Mutex<State>,
    clock: Mutex<Clock>,
    /// Something in the clock has changed.
    changed: Condvar,
    tally: Mutex<Tally>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Tally {
    /// Calls that were let go and have ended.
    ended: u32,
    /// Of these the ones that were sent.
    sent: u32,
    refused: u32,
    abandoned: u32,
    /// Nobody may be let go before; and how many had been when it was said.
    floor: Option<(Instant, u32)>,
}

/// A task that waits: waking it sets its bit.
struct Task {
    world: Arc<World>,
    number: Number,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.world.clock.lock().unwrap().woken.insert(self.number);
        self.world.changed.notify_all();
    }
}

impl World {
    fn new(limits: Limits, callers: usize) -> Arc<Self> {
        let epoch = clock::now();
        let bounds = Bounds { most_waiting: 100, longest_wait: None };
        Arc::new(Self {
            epoch,
            state: Mutex::new(State::new(limits, Rules::default(), Draws::seeded(1), bounds, false, epoch)),
            clock: Mutex::new(Clock { callers, ..Clock::default() }),
            changed: Condvar::new(),
            tally: Mutex::new(Tally::default()),
        })
    }

    fn now(&self) -> Instant {
        self.epoch + self.clock.lock().unwrap().now
    }

    /// Runs something under the lock of the scope, as the shell does: the clock is read before, wakers are called after.
    fn locked<T>(&self, run: impl FnOnce(&mut State, Instant, &mut Wakers) -> T) -> T {
        let now = self.now();
        let mut wakers = Wakers::default();
        let mut state = self.state.lock().unwrap();
        let value = run(&mut state, now, &mut wakers);
        self.check_floor(&state);
        drop(state);
        wakers.wake();
        value
    }

    /// Advice is a floor, whoever was just about to be let go.
    fn check_floor(&self, state: &State) {
        let tally = *self.tally.lock().unwrap();
        if let Some((floor, granted)) = tally.floor
            && self.now() < floor
        {
            assert_eq!(state.pace.in_flight().count() + tally.ended, granted, "let go during a cool-down");
        }
    }

    fn close(&self, wait: Duration) {
        self.locked(|state, now, wakers| {
            state.close(wait, now, wakers);
            let mut tally = self.tally.lock().unwrap();
            let granted = state.pace.in_flight().count() + tally.ended;
            let floor = now + wait;
            if tally.floor.is_none_or(|(known, _)| known < floor) {
                tally.floor = Some((floor, granted));
            }
        });
    }

    /// One call: waits for its turn, or drops its ticket after some looks.
    fn call(self: &Arc<Self>, deadline: Option<Duration>, looks: Option<usize>) {
        let request = Request {
            cost: Cost::request(),
            class: Priority::Normal,
            deadline: deadline.map(|after| self.epoch + after),
            place: None,
            kind: 0,
        };
        let answer = self.locked(|state, now, wakers| state.reserve(&request, now, wakers));
        match answer {
            Answer::Granted(_, call) => self.send(&call),
            Answer::Refused(_) => self.tally.lock().unwrap().refused += 1,
            Answer::Queued(number, _) => self.wait(number, looks),
        }
        self.clock.lock().unwrap().callers -= 1;
        self.changed.notify_all();
    }

    fn wait(self: &Arc<Self>, number: Number, looks: Option<usize>) {
        let waker = Waker::from(Arc::new(Task { world: Arc::clone(self), number }));
        let mut looked = 0;
        loop {
            if looks == Some(looked) {
                self.locked(|state, now, wakers| state.abandon(Priority::Normal, number, || now, wakers));
                self.clock.lock().unwrap().timers.remove(&number);
                self.tally.lock().unwrap().abandoned += 1;
                return;
            }
            looked += 1;
            self.clock.lock().unwrap().woken.remove(&number);
            let mut offered = Some(waker.clone());
            let look = self
                .locked(|state, now, wakers| state.look(Priority::Normal, number, &mut offered, now, wakers));
            match look {
                Ok(outcome) => {
                    self.clock.lock().unwrap().timers.remove(&number);
                    return match outcome {
                        Outcome::Granted(call) => self.send(&call),
                        Outcome::Refused(_) => self.tally.lock().unwrap().refused += 1,
                    };
                }
                // One that is about to be dropped does not wait to be woken for it.
                Err(_) if looks == Some(looked) => {}
                Err(timer) => self.sleep(number, timer),
            }
        }
    }

    fn sleep(&self, number: Number, timer: Option<Instant>) {
        let mut clock = self.clock.lock().unwrap();
        match timer {
            Some(at) => clock.timers.insert(number, at - self.epoch),
            None => clock.timers.remove(&number),
        };
        self.changed.notify_all();
        while !clock.woken.contains(&number)
            && clock.timers.get(&number).is_none_or(|timer| *timer > clock.now)
        {
            clock = self.changed.wait(clock).unwrap();
        }
    }

    /// Sends a call or, at random, does not; then it ends.
    fn send(&self, call: &Sent) {
        thread::yield_now();
        let (is_sent, cleanly) = (thread_rng().gen_bool(0.7), thread_rng().gen_bool(0.5));
        self.locked(|state, now, wakers| {
            state.end(call, is_sent, is_sent && cleanly, now);
            state.pump(now, wakers);
            let mut tally = self.tally.lock().unwrap();
            tally.ended += 1;
            tally.sent += u32::from(is_sent);
        });
    }

    /// The clock: jumps to the next timer, whenever its turn comes.
    fn run_clock(&self) {
        let mut clock = self.clock.lock().unwrap();
        while clock.callers > 0 {
            let next = clock.timers.values().copied().filter(|timer| *timer > clock.now).min();
            match next {
                Some(next) => {
                    clock.now = next;
                    self.changed.notify_all();
                    drop(clock);
                    thread::yield_now();
                    clock = self.clock.lock().unwrap();
                }
                None => clock = self.changed.wait(clock).unwrap(),
            }
        }
    }

    /// Nothing is left behind, and every cost is where it belongs.
    fn assert_all_is_back(&self, limit: Option<f64>) {
        let now = self.now();
        let state = self.state.lock().unwrap();
        assert!(state.queue.is_empty());
        assert_eq!(state.pace.in_flight().count(), 0);
        assert!(state.has_no_outcomes());
        let tally = *self.tally.lock().unwrap();
        if let Some(limit) = limit {
            let level = state.pace.unit_states(now).into_iter().find(|unit| unit.unit == QuotaUnit::Requests);
            let level = level.and_then(|unit| unit.level).unwrap();
            // What was spent at the start, what has come back since, and what was sent.
            let refilled = (now - self.epoch).as_secs_f64() * limit / 60.0;
            let expected = refilled - f64::from(tally.sent);
            assert!((level - expected).abs() < 1e-3, "{level} instead of {expected}: {tally:?}");
        }
    }
}

fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(scenario, SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, 3);
}

fn spawn_call(
    world: &Arc<World>,
    deadline: Option<Duration>,
    looks: Option<usize>,
) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || world.call(deadline, looks))
}

fn finish(world: &Arc<World>, threads: Vec<thread::JoinHandle<()>>) -> Tally {
    let clock = Arc::clone(world);
    let clock = thread::spawn(move || clock.run_clock());
    for thread in threads {
        thread.join().unwrap();
    }
    clock.join().unwrap();
    *world.tally.lock().unwrap()
}

#[test]
fn a_slot_is_handed_on_whoever_drops_a_ticket_while_being_granted() {
    explore(|| {
        let world = World::new(Limits::new().concurrency(1), 4);
        let looks = thread_rng().gen_range(0..3);
        let threads = vec![
            spawn_call(&world, None, None),
            spawn_call(&world, None, Some(looks)),
            spawn_call(&world, None, Some(1)),
            spawn_call(&world, None, None),
        ];
        let tally = finish(&world, threads);
        assert_eq!(tally.ended + tally.abandoned, 4);
        assert!(tally.ended >= 2);
        world.assert_all_is_back(None);
    });
}

#[test]
fn racing_pumps_grant_each_call_once_and_somebody_always_holds_the_timer() {
    explore(|| {
        let world = World::new(Limits::new().requests_per_minute(60), 4);
        let spent: Vec<Sent> =
            world.locked(|state, now, _| (0..60).map(|_| state.pace.send(Cost::request(), now)).collect());
        world.locked(|state, now, wakers| {
            spent.iter().for_each(|call| state.end(call, true, false, now));
            state.pump(now, wakers);
        });
        let looks = thread_rng().gen_range(0..3);
        let mut threads = vec![
            spawn_call(&world, None, Some(looks)),
            spawn_call(&world, None, None),
            spawn_call(&world, None, None),
            spawn_call(&world, Some(Duration::from_millis(2_500)), None),
        ];
        let other = Arc::clone(&world);
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                other.locked(|state, now, wakers| state.pump(now, wakers));
            }
        }));
        let tally = finish(&world, threads);
        assert_eq!(tally.ended + tally.refused + tally.abandoned, 4);
        assert!(tally.ended >= 2);
        world.assert_all_is_back(Some(60.0));
    });
}

#[test]
fn a_cool_down_that_grows_while_calls_park_holds_them_all_and_forgets_none() {
    explore(|| {
        let world = World::new(Limits::new(), 3);
        world.close(Duration::from_secs(1));
        let mut threads = vec![
            spawn_call(&world, None, None),
            spawn_call(&world, None, None),
            spawn_call(&world, Some(Duration::from_secs(3)), None),
        ];
        for seconds in [5, 2] {
            let world = Arc::clone(&world);
            threads.push(thread::spawn(move || world.close(Duration::from_secs(seconds))));
        }
        let tally = finish(&world, threads);
        assert_eq!(tally.ended + tally.refused, 3);
        assert!(tally.ended >= 2, "only the one with a deadline may be refused: {tally:?}");
        world.assert_all_is_back(None);
    });
}

#[test]
fn new_limits_reach_the_calls_that_wait_under_the_old_ones() {
    explore(|| {
        let world = World::new(Limits::new().concurrency(1), 3);
        let held = world.locked(|state, now, _| state.pace.send(Cost::request(), now));
        let mut threads = vec![spawn_call(&world, None, None), spawn_call(&world, None, None)];
        let other = Arc::clone(&world);
        threads.push(thread::spawn(move || {
            other.locked(|state, now, wakers| {
                state.pace.set_limits(Limits::new().concurrency(2), now);
                state.sweep(now, wakers);
                state.pump(now, wakers);
            });
            // The held call ends only after the others: without the new limit they would wait for ever.
            let mut clock = other.clock.lock().unwrap();
            while clock.callers > 1 {
                clock = other.changed.wait(clock).unwrap();
            }
            drop(clock);
            other.send(&held);
            other.clock.lock().unwrap().callers -= 1;
            other.changed.notify_all();
        }));
        let tally = finish(&world, threads);
        assert_eq!(tally.ended, 3);
        world.assert_all_is_back(None);
    });
}
