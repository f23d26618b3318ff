//! What a call has taken: the token usage that a response body states, read as the body passes by.
//!
//! Nothing of a body is kept but the few counts, so a stream of any length costs the same small memory and a time
//! proportional to its bytes. Every byte may be hostile.
//!
//! | Service | Where | Page followed |
//! |---|---|---|
//! | OpenAI, Azure OpenAI, Mistral, Groq, OpenRouter | `usage`, `response.usage`, `x_groq.usage` | <https://platform.openai.com/docs/api-reference/chat/object> |
//! | Anthropic | `usage`, `message.usage` | <https://docs.anthropic.com/en/api/messages-streaming> |
//! | Gemini, Vertex AI | `usageMetadata` | <https://ai.google.dev/api/generate-content#UsageMetadata> |
//!
//! Sans-IO: the body is fed in pieces, cut anywhere; the caller gets them.

mod json;

use http::HeaderValue;

use crate::pace::TokenUsage;
use json::Json;

/// The largest count that is believed, in tokens: more would let one wrong number put a scope in debt for days.
const LARGEST_COUNT: u64 = 100_000_000;

/// Reads the token usage out of a response body.
///
/// Several events of a stream may state counts: the last statement of each count holds, and counts of different events
/// are put together. So Anthropic's `message_start` gives the input and its last `message_delta` the output.
///
/// There is no `Debug`: it would show pieces of the body.
pub(crate) struct UsageScanner {
    /// How each line starts that goes on with a JSON text; `None` if the whole body is one.
    lines: Option<&'static [u8]>,
    /// How the line that is being read must go on until JSON comes; `None` if it is of another kind.
    expected: Option<&'static [u8]>,
    json: Json,
    counts: Counts,
}

impl UsageScanner {
    /// A scanner for bodies of this `Content-Type`; `None` if no usage can be found in them.
    ///
    /// JSON is read whole, `text/event-stream` by its `data:` lines and `application/x-ndjson` line by line.
    pub(crate) fn for_content_type(value: Option<&HeaderValue>) -> Option<Self> {
        let text = value?.to_str().ok()?;
        let media = text.split(';').next()?.trim().to_ascii_lowercase();
        let lines: Option<&[u8]> = match media.as_str() {
            "text/event-stream" => Some(b"data:"),
            "application/x-ndjson" => Some(b""),
            "application/json" => None,
            other if other.ends_with("+json") => None,
            _ => return None,
        };
        Some(Self { lines, expected: lines, json: Json::default(), counts: Counts::default() })
    }

    /// Reads the next piece of the body.
    pub(crate) fn feed(&mut self, data: &[u8]) {
        if self.lines.is_none() {
            return self.json.read(data, &mut self.counts);
        }
        let mut rest = data;
        loop {
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
            let (line, tail) = rest.split_at(end);
            self.feed_line(line);
            let Some((_, tail)) = tail.split_first() else { return };
            // Whatever a broken line has left open ends with it.
            self.json = Json::default();
            self.expected = self.lines;
            rest = tail;
        }
    }

    fn feed_line(&mut self, mut part: &[u8]) {
        while let Some([next, after @ ..]) = self.expected {
            let Some((byte, rest)) = part.split_first() else { return };
            self.expected = (byte == next).then_some(after);
            part = rest;
        }
        if self.expected.is_some() {
            self.json.read(part, &mut self.counts);
        }
    }

    /// The usage, if the body has stated one.
    ///
    /// Of a stream that was cut off this is what was stated until then, and the output may be stated too low: only
    /// the end of a body makes it final.
    pub(crate) fn finish(self) -> Option<TokenUsage> {
        self.counts.usage()
    }
}

/// A count by its place among [`NAMES`].
type Count = usize;

/// The names of the counts: the whole prompt; the prompt as OpenAI's Responses (whole) and Anthropic (without what the cache
/// was read or written for) name it; the part of it that was read from the cache; what was written to the cache, on top of
/// Anthropic's; the output; output that is not part of that.
const NAMES: [&str; 6] = [
    "prompt_tokens promptTokenCount",
    "input_tokens",
    "cached_tokens cachedContentTokenCount",
    "cache_creation_input_tokens",
    "completion_tokens output_tokens candidatesTokenCount",
    "thoughtsTokenCount",
];

fn count_named(name: &[u8]) -> Option<Count> {
    NAMES.iter().position(|names| names.split(' ').any(|known| known.as_bytes() == name))
}

/// The counts that were stated, in tokens.
#[derive(Default)]
struct Counts([Option<u64>; 6]);

impl Counts {
    fn set(&mut self, count: Count, tokens: u64) {
        if let Some(place) = self.0.get_mut(count).filter(|_| tokens <= LARGEST_COUNT) {
            *place = Some(tokens);
        }
    }

    /// Takes over what a later statement says.
    fn merge(&mut self, later: &Self) {
        for (known, later) in self.0.iter_mut().zip(later.0) {
            *known = later.or(*known);
        }
    }

    /// What counts against limits.
    ///
    /// Cached input does not (Azure OpenAI says so of provisioned deployments, Anthropic of all its limits), input
    /// that is written to a cache does. Without any count of the input nothing is known: 0 would be a wrong answer.
    fn usage(&self) -> Option<TokenUsage> {
        let [prompt, input, cached, written, output, thoughts] = self.0;
        let cached = cached.unwrap_or(0);
        let input = match prompt {
            // Gateways that translate Anthropic's answer count the cache into the prompt, and repeat its counts.
            Some(prompt) => prompt.saturating_sub(cached),
            None => input?.saturating_sub(cached).saturating_add(written.unwrap_or(0)),
        };
        // An embedding has no output, and states none.
        Some(TokenUsage::new(input, output.unwrap_or(0).saturating_add(thoughts.unwrap_or(0))))
    }
}

#[cfg(test)]
mod tests;
