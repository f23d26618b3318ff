//! Any course of events in a scope, in exact time: as long as anybody waits whose future is polled, one of them is set for the
//! moment at which the next may go, and nobody who may go is left waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::baton::next_release;
use super::super::cell::{Answer, Outcome, Request, Wakers};
use super::super::queue::{Number, Priority};
use super::super::state::{Bounds, State};
use crate::clock::Draws;
use crate::pace::{Cost, Limits, RefusedCall, Rules, Sent, TokenEstimate};
use crate::units::{QuotaUnit, QuotaUnits};

#[derive(Debug, Clone)]
enum Event {
    Arrive { class: Priority, tokens: u64, deadline: Option<Duration>, is_polled: bool },
    Poll(usize),
    Drop(usize),
    End(usize),
    Refuse(usize, Option<Duration>, bool),
    Close(Duration),
    Configure(u64, Option<u32>),
    Pass(Duration),
}

fn time(most: u64) -> impl Strategy<Value = Duration> {
    (1..most).prop_map(Duration::from_millis)
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let class = prop_oneof![Just(Priority::High), Just(Priority::Normal), Just(Priority::Batch)];
    let arrive =
        (class, prop_oneof![1..100_u64, 1_000..3_000_u64], proptest::option::weighted(0.2, time(60_000)));
    let concurrency = proptest::option::weighted(0.5, 1..5_u32);
    let event = prop_oneof![
        8 => (arrive, proptest::bool::weighted(0.9)).prop_map(|((class, tokens, deadline), is_polled)| {
            Event::Arrive { class, tokens, deadline, is_polled }
        }),
        1 => (0..50_usize).prop_map(Event::Poll),
        2 => (0..50_usize).prop_map(Event::Drop),
        4 => (0..50_usize).prop_map(Event::End),
        1 => (0..50_usize, proptest::option::of(time(5_000)), any::<bool>())
            .prop_map(|(call, advice, slots)| Event::Refuse(call, advice, slots)),
        1 => time(20_000).prop_map(Event::Close),
        1 => (500..5_000_u64, concurrency).prop_map(|(tokens, slots)| Event::Configure(tokens, slots)),
        4 => time(12_000).prop_map(Event::Pass),
    ];
    vec(event, 1..150)
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Task {
    class: Priority,
    number: Number,
    since: Instant,
    is_polled: bool,
    timer: Option<Instant>,
    flag: Arc<Flag>,
}

impl Task {
    fn is_due(&self, now: Instant) -> bool {
        self.is_polled && (self.flag.0.load(Ordering::Relaxed) || self.timer.is_some_and(|at| at <= now))
    }
}

struct World {
    state: State,
    now: Instant,
    waiting: Vec<Task>,
    in_flight: Vec<(Priority, Number, Instant, Sent)>,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let bounds = Bounds { most_waiting: 1_000, longest_wait: None };
        let limits = Limits::new().tokens_per_minute(3_000);
        let state = State::new(limits, Rules::default(), Draws::seeded(1), bounds, false, now);
        Self { state, now, waiting: Vec::new(), in_flight: Vec::new() }
    }

    fn locked<T>(&mut self, run: impl FnOnce(&mut State, Instant, &mut Wakers) -> T) -> T {
        let mut wakers = Wakers::default();
        let value = run(&mut self.state, self.now, &mut wakers);
        wakers.wake();
        value
    }

    fn arrive(&mut self, request: &Request, is_polled: bool) {
        let since = request.place.map_or(self.now, |(_, since)| since);
        let answer = self.locked(|state, now, wakers| state.reserve(request, now, wakers));
        let class = request.class;
        match answer {
            Answer::Granted(number, call) => self.in_flight.push((class, number, since, call)),
            Answer::Queued(number, _) => {
                let flag = Arc::new(Flag(AtomicBool::new(true)));
                self.waiting.push(Task { class, number, since, is_polled, timer: None, flag });
            }
            Answer::Refused(_) => {}
        }
    }

    /// Polls everybody who has been woken or whose timer has fired, until nobody is left.
    fn run(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..10_000 {
            let Some(at) = self.waiting.iter().position(|task| task.is_due(self.now)) else { return Ok(()) };
            let task = &self.waiting[at];
            task.flag.0.store(false, Ordering::Relaxed);
            let (class, number) = (task.class, task.number);
            let mut waker = Some(Waker::from(Arc::clone(&task.flag)));
            match self.locked(|state, now, wakers| state.look(class, number, &mut waker, now, wakers)) {
                Err(timer) => self.waiting[at].timer = timer,
                Ok(outcome) => {
                    let task = self.waiting.remove(at);
                    if let Outcome::Granted(call) = outcome {
                        self.in_flight.push((class, number, task.since, call));
                    }
                }
            }
        }
        Err(TestCaseError::fail("tasks wake one another for ever"))
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match event {
            Event::Arrive { class, tokens, deadline, is_polled } => {
                let cost = Cost::from(TokenEstimate::new(*tokens, 0));
                let deadline = deadline.map(|after| self.now + after);
                self.arrive(&Request { cost, class: *class, deadline, place: None, kind: 0 }, *is_polled);
            }
            Event::Poll(task) => {
                let count = self.waiting.len().max(1);
                if let Some(task) = self.waiting.get_mut(task % count) {
                    task.is_polled = true;
                    task.flag.0.store(true, Ordering::Relaxed);
                }
            }
            Event::Drop(task) if !self.waiting.is_empty() => {
                let Task { class, number, .. } = self.waiting.remove(task % self.waiting.len());
                self.locked(|state, now, wakers| state.abandon(class, number, || now, wakers));
            }
            Event::End(call) if !self.in_flight.is_empty() => {
                let (.., call) = self.in_flight.remove(call % self.in_flight.len());
                self.locked(|state, now, wakers| {
                    state.end(&call, true, true, now);
                    state.pump(now, wakers);
                });
            }
            Event::Refuse(call, advice, slots) if !self.in_flight.is_empty() => {
                let (class, number, since, call) = self.in_flight.remove(call % self.in_flight.len());
                let unit = if *slots { QuotaUnit::Concurrency } else { QuotaUnit::Tokens };
                let number = self.locked(|state, now, wakers| {
                    let refusal = RefusedCall {
                        who: (number.call(), 0),
                        advice: *advice,
                        planned: advice.unwrap_or_default(),
                        exhausted: QuotaUnits::EMPTY.with(unit),
                        is_alone: false,
                        refusals: number.refusals(),
                        draw: 0.5,
                    };
                    let lesson = state.refused(&call, refusal, &[], now, wakers);
                    state.number_after_refusal(number, lesson.is_suspect)
                });
                let cost = Cost::from(TokenEstimate::new(50, 0));
                let place = Some((number, since));
                self.arrive(&Request { cost, class, deadline: None, place, kind: 0 }, true);
            }
            Event::Close(wait) => self.locked(|state, now, wakers| state.close(*wait, now, wakers)),
            Event::Configure(tokens, slots) => {
                let limits = Limits::new().tokens_per_minute(*tokens);
                let limits = slots.map_or(limits, |slots| limits.concurrency(slots));
                self.locked(|state, now, wakers| {
                    state.pace.set_limits(limits, now);
                    state.sweep(now, wakers);
                    state.pump(now, wakers);
                });
            }
            Event::Pass(time) => {
                let until = self.now + *time;
                loop {
                    let polled = self.waiting.iter().filter(|task| task.is_polled);
                    let next = polled.filter_map(|task| task.timer).min().filter(|at| *at <= until);
                    let Some(next) = next else { break };
                    self.now = self.now.max(next);
                    self.run()?;
                    self.is_sound()?;
                }
                self.now = until;
            }
            Event::Drop(_) | Event::End(_) | Event::Refuse(..) => {}
        }
        self.run()?;
        self.is_sound()
    }

    fn is_sound(&mut self) -> Result<(), TestCaseError> {
        let State { queue, pace, .. } = &mut self.state;
        prop_assert_eq!(queue.len(), queue.iter().count());
        let heads = queue.heads(self.now);
        let Some((_, holder)) = queue.baton(&heads) else { return Ok(()) };
        let Err(release) = next_release(pace, &heads, self.now) else {
            return Err(TestCaseError::fail("somebody may go and waits"));
        };
        let task = self.waiting.iter().find(|task| task.number == holder);
        let Some(task) = task else { return Err(TestCaseError::fail("nobody holds the timer")) };
        // While as many are in flight as may be, it is their end that lets somebody go.
        let in_flight = pace.in_flight();
        let is_free = in_flight.cap().is_none_or(|cap| in_flight.count() < cap);
        if let Some(release) = release.filter(|_| is_free) {
            // Moments are told in whole microseconds.
            let latest = release + Duration::from_micros(10);
            prop_assert!(
                task.timer.is_some_and(|timer| timer <= latest),
                "{:?} too late",
                task.timer.map(|timer| timer - release)
            );
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn somebody_is_always_set_for_the_next_release_and_nobody_is_left_waiting(events in events()) {
        let mut world = World::new();
        for event in &events {
            world.happen(event)?;
        }
        // Everybody comes to an end once all are polled and calls end.
        for task in &mut world.waiting {
            task.is_polled = true;
        }
        world.run()?;
        for _ in 0..2_000 {
            if world.waiting.is_empty() {
                break;
            }
            world.happen(&Event::End(0))?;
            world.happen(&Event::Pass(Duration::from_secs(10)))?;
        }
        prop_assert!(world.waiting.is_empty(), "{} wait for ever", world.waiting.len());
        prop_assert!(world.state.queue.is_empty() && world.state.has_no_outcomes());
    }
}
