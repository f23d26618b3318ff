//! Gates: when the next call may go.
use crate::Rng;

/// What the server's headers state of a window: how much is left, and in how many seconds it is renewed (where it says so).
#[derive(Clone, Copy, Debug)]
pub struct Stated { pub limit: f64, pub remaining: f64, pub reset: Option<f64> }
/// `kind`: route and model of the call, as far as the application tells them apart.
pub struct Answer { pub call: u64, pub kind: u64, pub refused: bool, pub advice: Option<f64>, pub stated: Option<Stated>, pub sent_at: f64, pub cost: f64, pub in_flight: u32, pub attempts: u32 }
pub trait Gate {
    /// The earliest moment the next call may go; infinite: not before an answer.
    fn earliest(&mut self, now: f64, in_flight: u32) -> f64;
    fn sent(&mut self, now: f64, cost: f64, call: u64, kind: u64);
    /// How long the refused call itself waits at least.
    fn answered(&mut self, now: f64, a: &Answer) -> f64;
}

pub fn make(name: &str, seed: u64) -> Box<dyn Gate> {
    if let Some(inner) = name.strip_prefix("w+") { return Box::new(witnessed::Witnessed::new(make(inner, seed), seed)); }
    match name {
        "none" => Box::new(Alone(Rng::new(seed, 5))),
        "cooldown" => Box::new(CoolDown { rng: Rng::new(seed, 5), closed: 0.0 }),
        "cubic" => Box::new(crate::gates::cubic::Cubic::new(seed)),
        "undo" => Box::new(crate::gates::undo::Undo::new(seed)),
        "gate" => Box::new(gate::Gate::new(seed, false)),
        "shared" => Box::new(gate::Gate::new(seed, true)),
        "pace" => Box::new(pace::Pace::new(seed)),
        "scored" => Box::new(scored::Scored::new(seed)),
        "undo2" => Box::new(undo2::Undo::new(seed)),
        "stated+undo" => Box::new(stated::StatedGate::new(undo::Undo::new(seed))),
        "stated+scored" => Box::new(stated::StatedGate::new(scored::Scored::new(seed))),
        _ => panic!("no gate {name}"),
    }
}

fn backoff(rng: &mut Rng, attempts: u32) -> f64 { let full = (0.5 * 2f64.powi(attempts as i32 - 1)).min(8.0); full * (0.5 + 0.5 * rng.u()) }

struct Alone(Rng);
impl Gate for Alone {
    fn earliest(&mut self, now: f64, _: u32) -> f64 { now }
    fn sent(&mut self, _: f64, _: f64, _: u64, _: u64) {}
    fn answered(&mut self, _: f64, a: &Answer) -> f64 { if !a.refused { return 0.0; } a.advice.filter(|x| *x > 0.0).unwrap_or_else(|| backoff(&mut self.0, a.attempts)) }
}
struct CoolDown { rng: Rng, closed: f64 }
impl Gate for CoolDown {
    fn earliest(&mut self, now: f64, _: u32) -> f64 { self.closed.max(now) }
    fn sent(&mut self, _: f64, _: f64, _: u64, _: u64) {}
    fn answered(&mut self, now: f64, a: &Answer) -> f64 {
        if !a.refused { return 0.0; }
        match a.advice { Some(w) if w > 0.0 => { self.closed = self.closed.max(now + w); w } _ => backoff(&mut self.rng, a.attempts) }
    }
}
mod cubic;
mod undo;
mod scored;
mod witnessed;
mod stated;
mod undo2;
mod pace;
mod gate;
mod window;
