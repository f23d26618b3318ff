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
//! Sans-IO: the body is fed in pieces, cut anywhere; where the pieces come from is the business of the caller.

mod json;

use http::HeaderValue;

use crate::pace::TokenUsage;
use json::Json;

/// The largest count that is believed, in tokens.
///
/// No context window comes near it. Believing more would let one wrong number put a scope in debt for days.
const LARGEST_COUNT: u64 = 100_000_000;

/// Reads the token usage out of a response body.
///
/// Several events of a stream may state counts: the last statement of each count holds, and counts of different events
/// are put together. So Anthropic's `message_start` gives the input and its last `message_delta` the output.
///
/// There is no `Debug`: it would show pieces of the body.
pub(crate) struct UsageScanner {
    framing: Framing,
    line: Line,
    json: Json,
    counts: Counts,
}

enum Framing {
    /// The body is one JSON text.
    Whole,
    /// Each line that starts so goes on with a JSON text.
    Lines(&'static [u8]),
}

/// The line that is being read.
enum Line {
    /// It must go on so; after that comes JSON.
    Expect(&'static [u8]),
    /// It is of another kind.
    Skip,
}

impl UsageScanner {
    /// A scanner for bodies of this `Content-Type`; `None` where no usage can be found in them.
    ///
    /// JSON is read whole, `text/event-stream` by its `data:` lines and `application/x-ndjson` line by line.
    pub(crate) fn for_content_type(value: Option<&HeaderValue>) -> Option<Self> {
        let text = value?.to_str().ok()?;
        let media = text.split(';').next()?.trim().to_ascii_lowercase();
        let framing = match media.as_str() {
            "application/json" => Framing::Whole,
            "text/event-stream" => Framing::Lines(b"data:"),
            "application/x-ndjson" => Framing::Lines(b""),
            other if other.ends_with("+json") => Framing::Whole,
            _ => return None,
        };
        let line = framing.line();
        Some(Self { framing, line, json: Json::default(), counts: Counts::default() })
    }

    /// Reads the next piece of the body.
    pub(crate) fn feed(&mut self, data: &[u8]) {
        if matches!(self.framing, Framing::Whole) {
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
            self.line = self.framing.line();
            rest = tail;
        }
    }

    fn feed_line(&mut self, mut part: &[u8]) {
        while let Line::Expect([next, after @ ..]) = self.line {
            let Some((byte, rest)) = part.split_first() else { return };
            self.line = if byte == next { Line::Expect(after) } else { Line::Skip };
            part = rest;
        }
        if matches!(self.line, Line::Expect(_)) {
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

impl Framing {
    /// How a line starts.
    const fn line(&self) -> Line {
        match self {
            Self::Whole => Line::Expect(b""),
            Self::Lines(prefix) => Line::Expect(prefix),
        }
    }
}

/// What a count counts.
#[derive(Clone, Copy)]
enum Count {
    /// The whole prompt.
    Prompt,
    /// The prompt as OpenAI's Responses (whole) and Anthropic (without what the cache was read or written for) name it.
    Input,
    /// The part of the prompt that was read from the cache, included in it.
    Cached,
    /// What was written to the cache, on top of [`Count::Input`].
    CacheWritten,
    Output,
    /// Output that is not part of [`Count::Output`].
    Thoughts,
}

impl Count {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"prompt_tokens" | b"promptTokenCount" => Self::Prompt,
            b"input_tokens" => Self::Input,
            b"cached_tokens" | b"cachedContentTokenCount" => Self::Cached,
            b"cache_creation_input_tokens" => Self::CacheWritten,
            b"completion_tokens" | b"output_tokens" | b"candidatesTokenCount" => Self::Output,
            b"thoughtsTokenCount" => Self::Thoughts,
            _ => return None,
        })
    }
}

/// The counts that were stated, in tokens.
#[derive(Default)]
struct Counts {
    prompt: Option<u64>,
    input: Option<u64>,
    cached: Option<u64>,
    cache_written: Option<u64>,
    output: Option<u64>,
    thoughts: Option<u64>,
}

impl Counts {
    const fn set(&mut self, count: Count, tokens: u64) {
        if tokens > LARGEST_COUNT {
            return;
        }
        let place = match count {
            Count::Prompt => &mut self.prompt,
            Count::Input => &mut self.input,
            Count::Cached => &mut self.cached,
            Count::CacheWritten => &mut self.cache_written,
            Count::Output => &mut self.output,
            Count::Thoughts => &mut self.thoughts,
        };
        *place = Some(tokens);
    }

    /// Takes over what a later statement says.
    fn merge(&mut self, later: &Self) {
        self.prompt = later.prompt.or(self.prompt);
        self.input = later.input.or(self.input);
        self.cached = later.cached.or(self.cached);
        self.cache_written = later.cache_written.or(self.cache_written);
        self.output = later.output.or(self.output);
        self.thoughts = later.thoughts.or(self.thoughts);
    }

    /// What counts against limits.
    ///
    /// Cached input does not (Azure OpenAI says so of provisioned deployments, Anthropic of all its limits), input
    /// that is written to a cache does. Without any count of the input nothing is known: 0 would be a wrong answer.
    fn usage(&self) -> Option<TokenUsage> {
        let cached = self.cached.unwrap_or(0);
        let input = match (self.prompt, self.input) {
            // Gateways that translate Anthropic's answer count the cache into the prompt, and repeat its counts.
            (Some(prompt), _) => prompt.saturating_sub(cached),
            (None, Some(input)) => {
                input.saturating_sub(cached).saturating_add(self.cache_written.unwrap_or(0))
            }
            (None, None) => return None,
        };
        // An embedding has no output, and states none.
        let output = self.output.unwrap_or(0).saturating_add(self.thoughts.unwrap_or(0));
        Some(TokenUsage::new(input, output))
    }
}

#[cfg(test)]
mod tests;
