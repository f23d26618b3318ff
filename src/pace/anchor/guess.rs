//! The first guess at a capacity: what was sent lately, until a second round of refusals tells more.

/// So many calls that were held back and not refused show that a guess is too low ...
const CALLS: u32 = 4;
/// ... over so long, in seconds, in which a refusal would have come.
const PROBATION: f64 = 1.0;

/// Whether an estimate is a first guess, and how it has done.
///
/// A scope that is new has sent little, and its first refusal may have nothing to do with that. Probing grows with the
/// calls that were held back, so a guess of one call a second would last for half a minute. It is doubled instead, as
/// in the slow start of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Guess {
    on_probation: Option<Probation>,
}

#[derive(Debug, Clone, Copy)]
struct Probation {
    began: f64,
    calls: u32,
    since: Option<f64>,
}

impl Guess {
    /// An estimate has been guessed.
    pub(super) const fn begin(&mut self, now: f64) {
        self.on_probation = Some(Probation { began: now, calls: 0, since: None });
    }

    /// A call was refused: the estimate is no longer a guess, unless the call had left before there was one.
    pub(super) fn refused(&mut self, sent_at: f64) {
        self.on_probation = self.on_probation.filter(|probation| sent_at <= probation.began);
    }

    /// A call was held back until now; returns whether the guess is to be doubled.
    pub(super) fn held_back(&mut self, now: f64) -> bool {
        let Some(probation) = &mut self.on_probation else { return false };
        let since = *probation.since.get_or_insert(now);
        probation.calls = probation.calls.saturating_add(1);
        let is_over = probation.calls > CALLS && now - since >= PROBATION;
        if is_over {
            (probation.calls, probation.since) = (0, Some(now));
        }
        is_over
    }
}
