//! Finds the usage object in a JSON text that arrives in pieces.
//!
//! Only the way to the object is followed, by its keys: text that a model or a tool has written may hold anything, and
//! an object called `usage` in it is not taken for the service's. What stands off that way is skipped unread, so the
//! length and depth of a text do not matter.

use arrayvec::ArrayVec;

use super::{Count, Counts, count_named};

/// The longest key that is told apart from others, in bytes. `cache_creation_input_tokens` has 27.
const LONGEST_KEY: usize = 32;

/// A reader of one JSON text, or of several in a row.
#[derive(Default)]
pub(super) struct Json {
    /// The open containers on the way. Gemini's stream that is not one of events is an array of answers, and stands outside.
    way: ArrayVec<Place, 4>,
    /// How many containers are open that stand off the way.
    ignored: usize,
    mode: Mode,
    /// The last string as far as it may be a key.
    text: ArrayVec<u8, LONGEST_KEY>,
    /// Whether `text` is all of that string.
    is_whole: bool,
    key: Key,
    /// A value that has begun; `Some(None)` is no whole number of 0 or more.
    value: Option<Option<u64>>,
    /// What the open usage object has said; it holds when the object is complete.
    stated: Counts,
}

#[derive(Clone, Copy)]
enum Place {
    Answer,
    /// An object of the answer that may hold the usage.
    Envelope,
    Usage,
    /// The parts of the input count.
    Details,
}

#[derive(Default)]
enum Mode {
    #[default]
    Between,
    Text,
    Escape,
}

#[derive(Default, Clone, Copy)]
enum Key {
    #[default]
    Other,
    Opens(Place),
    Count(Count),
}

impl Json {
    /// Reads the next piece; adds each usage object to `counts` when it is complete.
    pub(super) fn read(&mut self, data: &[u8], counts: &mut Counts) {
        let mut rest = data;
        while let Some((&byte, tail)) = self.skip(rest).split_first() {
            rest = tail;
            match (&self.mode, byte) {
                (Mode::Between, _) => self.between(byte, counts),
                (Mode::Escape, _) => self.mode = Mode::Text,
                (Mode::Text, b'"') => self.mode = Mode::Between,
                // No known key has an escape in it.
                (Mode::Text, b'\\') => (self.is_whole, self.mode) = (false, Mode::Escape),
                (Mode::Text, _) => self.is_whole = self.is_whole && self.text.try_push(byte).is_ok(),
            }
        }
    }

    /// What is left after the bytes that change nothing: nearly all of a body.
    fn skip<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let next = match self.mode {
            Mode::Text if !self.is_whole => data.iter().position(|byte| matches!(byte, b'"' | b'\\')),
            Mode::Between if self.ignored > 0 => {
                data.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))
            }
            _ => return data,
        };
        next.and_then(|next| data.get(next..)).unwrap_or_default()
    }

    fn between(&mut self, byte: u8, counts: &mut Counts) {
        match byte {
            b'"' => {
                self.mode = Mode::Text;
                self.text.clear();
                self.is_whole = self.ignored == 0;
            }
            b'{' | b'[' => self.open(byte),
            b'}' | b']' if self.ignored > 0 => self.ignored = self.ignored.saturating_sub(1),
            _ if self.ignored > 0 => {}
            b'}' | b']' => {
                self.end_member();
                if let Some(Place::Usage) = self.way.pop() {
                    counts.merge(&std::mem::take(&mut self.stated));
                }
            }
            b':' => {
                self.key = if self.is_whole { Key::named(&self.text) } else { Key::Other };
                self.value = None;
            }
            b',' => self.end_member(),
            // The digits stand in the lower half of their bytes.
            b'0'..=b'9' => {
                let digit = u64::from(byte & 0x0f);
                let longer = |number: u64| number.saturating_mul(10).saturating_add(digit);
                self.value = Some(self.value.map_or(Some(digit), |number| number.map(longer)));
            }
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => self.value = Some(None),
        }
    }

    fn open(&mut self, byte: u8) {
        if self.ignored == 0 {
            let key = std::mem::take(&mut self.key);
            self.value = None;
            let place = match (self.way.last(), byte, key) {
                (None, b'[', _) => return,
                (None, ..) => Some(Place::Answer),
                (Some(Place::Answer), b'{', Key::Opens(place @ (Place::Envelope | Place::Usage)))
                | (Some(Place::Envelope), b'{', Key::Opens(place @ Place::Usage))
                | (Some(Place::Usage), b'{', Key::Opens(place @ Place::Details)) => Some(place),
                _ => None,
            };
            if place.is_some_and(|place| self.way.try_push(place).is_ok()) {
                return;
            }
        }
        self.ignored = self.ignored.saturating_add(1);
    }

    fn end_member(&mut self) {
        let member = (std::mem::take(&mut self.key), self.value.take().flatten());
        if let (Key::Count(count), Some(tokens)) = member
            && matches!(self.way.last(), Some(Place::Usage | Place::Details))
        {
            self.stated.set(count, tokens);
        }
        // A string that was a value is no key.
        self.is_whole = false;
    }
}

impl Key {
    fn named(name: &[u8]) -> Self {
        match name {
            b"usage" | b"usageMetadata" => Self::Opens(Place::Usage),
            // OpenAI's Responses, Anthropic's message_start, Groq's last chunk.
            b"response" | b"message" | b"x_groq" => Self::Opens(Place::Envelope),
            b"prompt_tokens_details" | b"input_tokens_details" => Self::Opens(Place::Details),
            _ => count_named(name).map_or(Self::Other, Self::Count),
        }
    }
}
