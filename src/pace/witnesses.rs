//! Whether advice is for all: law 7 has one exception, and this is where it is found.
//!
//! Calls sent after a refused one, within its advised time and before its refusal was heard of, are *witnesses*: those that
//! went through speak against a closing for all, those refused for it. While most speak against it, advice binds the
//! refused call alone. So with one full backend of many, or a busy node, the others go on; at a limit that is for all
//! every witness is refused, and nothing changes.

use std::collections::VecDeque;

/// A server starts with this many witnesses for a closing: without evidence the advice is for all.
const FOR_ALL: f64 = 1.0;
/// The most witnesses that are remembered; beyond it all count half.
const MEMORY: f64 = 32.0;
/// Spans that are kept; those of one burst are one.
const SPANS: usize = 4;

/// The calls that can be witnesses of a refusal: sent after it, and in this span.
#[derive(Debug, Clone, Copy)]
struct Span {
    after: u64,
    from: f64,
    to: f64,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Witnesses {
    spans: VecDeque<Span>,
    against: f64,
    in_favour: f64,
}

impl Default for Witnesses {
    fn default() -> Self {
        Self { spans: VecDeque::new(), against: 0.0, in_favour: FOR_ALL }
    }
}

impl Witnesses {
    /// Whether advice closes the scope for all.
    pub(super) fn are_for_all(&self) -> bool {
        self.against <= self.in_favour
    }

    /// A call was refused with advice; `heard` is now.
    pub(super) fn refused(&mut self, order: u64, sent: f64, heard: f64, advice: f64) {
        let to = heard.min(sent + advice);
        // The second call after a closing, refused: without burst every closing would be doubled by its second call.
        match self.spans.back_mut() {
            Some(last) if sent <= last.to && sent >= last.from => {
                last.to = last.to.max(to);
            }
            Some(last) if sent < last.from && to >= last.from => {
                (last.after, last.from, last.to) = (last.after.min(order), sent, last.to.max(to));
            }
            _ => {
                if self.spans.len() == SPANS {
                    self.spans.pop_front();
                }
                self.spans.push_back(Span { after: order, from: sent, to });
            }
        }
    }

    /// The verdict of call `order`, as its response tells it: a call that is only presumed to have gone through may be refused
    /// yet.
    pub(super) fn heard(&mut self, order: u64, sent: f64, refused: bool) {
        if !self.spans.iter().any(|span| order > span.after && sent < span.to) {
            return;
        }
        if refused {
            self.in_favour += 1.0;
        } else {
            self.against += 1.0;
        }
        if self.in_favour + self.against > MEMORY {
            self.in_favour *= 0.5;
            self.against *= 0.5;
        }
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }
}
