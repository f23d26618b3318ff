//! Finds the usage object in a JSON text that arrives in pieces.
//!
//! Only the way to the object is followed, by its keys: text that a model or a tool has written may hold anything, and
//! an object called `usage` in it is not taken for the service's. What stands off that way is skipped unread, so the
//! length and depth of a text do not matter.

use arrayvec::ArrayVec;

use super::{Count, Counts};

/// The longest key that is told apart from others, in bytes. `cache_creation_input_tokens` has 27.
const LONGEST_KEY: usize = 32;

/// A reader of one JSON text, or of several in a row.
#[derive(Default)]
pub(super) struct Json {
    place: Place,
    /// How many containers are open that stand off the way.
    ignored: usize,
    mode: Mode,
    /// The last string as far as it may be a key.
    text: ArrayVec<u8, LONGEST_KEY>,
    /// Whether `text` is all of that string.
    is_whole: bool,
    key: Key,
    value: Value,
    /// What the open usage object has said; it holds when the object is complete.
    stated: Counts,
}

/// The innermost open container that is on the way.
#[derive(Default, Clone, Copy)]
enum Place {
    /// Not in any object. Gemini's stream that is not one of events is an array of answers.
    #[default]
    Outside,
    Answer,
    /// An object of the answer that may hold the usage.
    Envelope,
    Usage(Parent),
    /// The parts of the input count.
    Details(Parent),
}

/// Where the usage object stands.
#[derive(Clone, Copy)]
enum Parent {
    Answer,
    Envelope,
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
    Envelope,
    Usage,
    Details,
    Count(Count),
}

#[derive(Default, Clone, Copy)]
enum Value {
    #[default]
    Nothing,
    Number(u64),
    /// No whole number of 0 or more.
    Other,
}

impl Json {
    /// Reads the next piece; adds each usage object to `counts` when it is complete.
    pub(super) fn read(&mut self, data: &[u8], counts: &mut Counts) {
        let mut rest = data;
        loop {
            rest = self.skip(rest);
            let Some((&byte, tail)) = rest.split_first() else { return };
            rest = tail;
            match (&self.mode, byte) {
                (Mode::Between, _) => self.between(byte, counts),
                (Mode::Escape, _) => self.mode = Mode::Text,
                (Mode::Text, b'"') => self.mode = Mode::Between,
                (Mode::Text, b'\\') => {
                    // No known key has an escape in it.
                    self.is_whole = false;
                    self.mode = Mode::Escape;
                }
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
            b'}' | b']' => self.close(counts),
            _ if self.ignored > 0 => {}
            b':' => {
                self.key = if self.is_whole { Key::named(&self.text) } else { Key::Other };
                self.value = Value::Nothing;
            }
            b',' => self.end_member(),
            b'0'..=b'9' => self.value = self.value.with_digit(byte),
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => self.value = Value::Other,
        }
    }

    fn open(&mut self, byte: u8) {
        if self.ignored > 0 {
            self.ignored = self.ignored.saturating_add(1);
            return;
        }
        let key = std::mem::take(&mut self.key);
        self.value = Value::Nothing;
        self.place = match (self.place, byte, key) {
            (Place::Outside, b'{', _) => Place::Answer,
            (Place::Outside, _, _) => Place::Outside,
            (Place::Answer, b'{', Key::Envelope) => Place::Envelope,
            (Place::Answer, b'{', Key::Usage) => Place::Usage(Parent::Answer),
            (Place::Envelope, b'{', Key::Usage) => Place::Usage(Parent::Envelope),
            (Place::Usage(parent), b'{', Key::Details) => Place::Details(parent),
            (place, _, _) => {
                self.ignored = 1;
                place
            }
        };
    }

    fn close(&mut self, counts: &mut Counts) {
        if self.ignored > 0 {
            self.ignored = self.ignored.saturating_sub(1);
            return;
        }
        self.end_member();
        self.place = match self.place {
            Place::Outside | Place::Answer => Place::Outside,
            Place::Envelope => Place::Answer,
            Place::Details(parent) => Place::Usage(parent),
            Place::Usage(parent) => {
                counts.merge(&std::mem::take(&mut self.stated));
                match parent {
                    Parent::Answer => Place::Answer,
                    Parent::Envelope => Place::Envelope,
                }
            }
        };
    }

    fn end_member(&mut self) {
        let member = (std::mem::take(&mut self.key), std::mem::take(&mut self.value));
        if let (Key::Count(count), Value::Number(tokens)) = member
            && matches!(self.place, Place::Usage(_) | Place::Details(_))
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
            b"usage" | b"usageMetadata" => Self::Usage,
            // OpenAI's Responses, Anthropic's message_start, Groq's last chunk.
            b"response" | b"message" | b"x_groq" => Self::Envelope,
            b"prompt_tokens_details" | b"input_tokens_details" => Self::Details,
            _ => Count::named(name).map_or(Self::Other, Self::Count),
        }
    }
}

impl Value {
    fn with_digit(self, byte: u8) -> Self {
        // The digits stand in the lower half of their bytes.
        let digit = u64::from(byte & 0x0f);
        match self {
            Self::Nothing => Self::Number(digit),
            Self::Number(number) => Self::Number(number.saturating_mul(10).saturating_add(digit)),
            Self::Other => Self::Other,
        }
    }
}
