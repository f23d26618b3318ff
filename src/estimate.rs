//! What a call will take: an estimate read off a JSON request body.
//!
//! ```
//! use reqwest_admission::estimate::BodyEstimator;
//! use reqwest_admission::pace::TokenEstimate;
//!
//! let body = br#"{"model":"any","max_tokens":400,"messages":[{"role":"user","content":"Why is the sky blue?"}]}"#;
//! let estimator = BodyEstimator::default();
//! assert_eq!(estimator.estimate(body), Some(TokenEstimate::new(5, 400)));
//!
//! // A counter of your own, as from a tokenizer
//! let words = BodyEstimator::default().counter(|text: &str| text.split_whitespace().count().try_into().unwrap_or(0));
//! assert_eq!(words.estimate(body), Some(TokenEstimate::new(5, 400)));
//! ```
//!
//! An estimate need not be exact: the difference is settled when the response states what the call has taken. It should
//! not be far too high, since what is estimated is held back from other calls until then. A body of which no estimate
//! can be made gives `None`, and the call counts as an average one of its scope.
//!
//! Pure: no clock, no I/O, and a time proportional to the size of the body, which is bounded.
//!
//! Pages followed: <https://platform.openai.com/docs/api-reference/chat/create>,
//! <https://platform.openai.com/docs/api-reference/responses/create>, <https://docs.anthropic.com/en/api/messages>,
//! <https://ai.google.dev/api/generate-content>.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::pace::TokenEstimate;

/// What an image, a sound or a document counts, in tokens, whatever its size: its encoded length says nothing. Services take
/// from a few hundred to about 1,600 for an image (<https://docs.anthropic.com/en/docs/build-with-claude/vision>).
const ATTACHMENT_TOKENS: u64 = 1_000;

/// The most output that is believed, in tokens, over all the answers that are asked for. No model writes more; the service
/// will refuse a larger number, and until it does that must not hold back all other calls.
const LARGEST_OUTPUT: u64 = 1_048_576;

/// The most answers that one call can ask for.
const MOST_ANSWERS: u64 = 128;

/// One of them must be there, or the body is of another kind.
const CONVERSATIONS: &str = "messages contents input prompt";
const INSTRUCTIONS: &str = "system instructions systemInstruction system_instruction";
const TOOLS: &str = "tools functions";
const OUTPUTS: &str =
    "max_tokens max_completion_tokens max_output_tokens maxOutputTokens max_tokens_to_sample";
const ANSWERS: &str = "n best_of candidateCount candidate_count";
/// Where Gemini states its settings.
const SETTINGS: &str = "generationConfig generation_config";
/// Members of messages and their parts that the model does not read as text.
const UNREAD: &str = "type role id call_id tool_call_id tool_use_id status cache_control media_type signature \
    thoughtSignature thought_signature encrypted_content";
/// Members that make a part an attachment.
const ATTACHED: &str = "image_url file_data file_id file_url fileUri file_uri";
/// Members that stand beside `data` if it is encoded.
const MEDIA_TYPES: &str = "media_type mimeType mime_type format";

/// Counts the tokens of a text.
///
/// Closures `Fn(&str) -> u64` are counters.
pub trait TokenCounter: Send + Sync {
    /// The number of tokens of `text`.
    fn count(&self, text: &str) -> u64;
}

impl<F: Fn(&str) -> u64 + Send + Sync> TokenCounter for F {
    fn count(&self, text: &str) -> u64 {
        self(text)
    }
}

/// OpenAI's rule of thumb for English text
/// (<https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them>), in bytes rather than characters,
/// since scripts of several bytes a character take more tokens as well.
fn four_bytes_each(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX).div_ceil(4)
}

/// Estimates what a request with a JSON body will take.
///
/// Knows the shapes of OpenAI (chat, Responses, completions), Anthropic and Gemini, and of services that are compatible
/// with them.
///
/// * Prompt: the texts of `messages`, `contents`, `input`, `prompt`, `system`, `instructions` and `systemInstruction`,
///   with calls and results of tools in them; numbers there are token ids and count one each; `tools` count by their
///   JSON text; images, sounds and documents 1,000 each.
/// * Output: `max_tokens`, `max_completion_tokens`, `max_output_tokens` or `generationConfig.maxOutputTokens`, times `n`,
///   `best_of` or `candidateCount`, up to 1,048,576.
///
/// What a conversation holds on the server (`previous_response_id`, `cachedContent`) is not known here.
#[derive(Clone)]
pub struct BodyEstimator {
    counter: Arc<dyn TokenCounter>,
    default_max_output: u64,
    largest_body: usize,
}

impl BodyEstimator {
    /// How the tokens of a text are counted. By default four bytes are a token.
    ///
    /// It is called once for each text, in the caller's future: it should not block.
    #[must_use]
    pub fn counter(mut self, counter: impl TokenCounter + 'static) -> Self {
        self.counter = Arc::new(counter);
        self
    }

    /// The output, in tokens, of an answer for which the body states no maximum. Default: 1,024.
    ///
    /// Services differ in what they reserve then, up to all that the model can write; the default is what an answer
    /// seldom exceeds. 0 suits embeddings, which have no output.
    #[must_use]
    pub const fn default_max_output(mut self, tokens: u64) -> Self {
        self.default_max_output = tokens;
        self
    }

    /// The largest body that is looked into, in bytes. Default: 1 MiB.
    #[must_use]
    pub const fn largest_body(mut self, bytes: usize) -> Self {
        self.largest_body = bytes;
        self
    }

    /// The estimate for a request with this body.
    ///
    /// `None` if it is too large, not JSON or of no known shape: a guess then could hold back a whole limit.
    #[must_use]
    pub fn estimate(&self, body: &[u8]) -> Option<TokenEstimate> {
        if body.len() > self.largest_body {
            return None;
        }
        // The parser bounds the depth, so the walk below is bounded too.
        let body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let is_one = |name: &str| body.get(name).is_some_and(|value| is_conversation(name, value));
        if !CONVERSATIONS.split(' ').any(is_one) {
            return None;
        }
        let texts = members(&body, CONVERSATIONS).chain(members(&body, INSTRUCTIONS));
        let tools = members(&body, TOOLS).map(|tools| self.counter.count(&tools.to_string()));
        let prompt = sum(texts.map(|value| self.content(value)).chain(tools));
        Some(TokenEstimate::new(prompt, self.output(&body)))
    }

    fn content(&self, value: &Value) -> u64 {
        match value {
            Value::Null | Value::Bool(_) => 0,
            Value::Number(_) => 1,
            Value::String(text) if is_encoded(text) => ATTACHMENT_TOKENS,
            Value::String(text) => self.counter.count(text),
            Value::Array(values) => sum(values.iter().map(|value| self.content(value))),
            Value::Object(object) if is_attachment(object) => ATTACHMENT_TOKENS,
            Value::Object(object) => {
                let read = object
                    .iter()
                    .filter(|(name, _)| !UNREAD.split(' ').any(|unread| unread == name.as_str()));
                sum(read.map(|(_, value)| self.content(value)))
            }
        }
    }

    /// The most output of all answers.
    fn output(&self, body: &Map<String, Value>) -> u64 {
        let stated = |names| {
            let settings = members(body, SETTINGS).filter_map(Value::as_object);
            settings.chain([body]).flat_map(|object| members(object, names)).filter_map(Value::as_u64).max()
        };
        let answers = stated(ANSWERS).unwrap_or(1).clamp(1, MOST_ANSWERS);
        stated(OUTPUTS).unwrap_or(self.default_max_output).saturating_mul(answers).min(LARGEST_OUTPUT)
    }
}

impl Default for BodyEstimator {
    fn default() -> Self {
        Self { counter: Arc::new(four_bytes_each), default_max_output: 1_024, largest_body: 1024 * 1024 }
    }
}

impl fmt::Debug for BodyEstimator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("BodyEstimator");
        shown.field("default_max_output", &self.default_max_output);
        shown.field("largest_body", &self.largest_body).finish_non_exhaustive()
    }
}

fn members<'a>(object: &'a Map<String, Value>, names: &'static str) -> impl Iterator<Item = &'a Value> {
    names.split(' ').filter_map(|name| object.get(name))
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Whether a member of that name has the form it has in requests to language models.
fn is_conversation(name: &str, value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::String(_) => matches!(name, "input" | "prompt"),
        // OpenAI's prompts that are kept on the server.
        Value::Object(_) => name == "prompt",
        _ => false,
    }
}

/// A `data:` url with base64 in it.
fn is_encoded(text: &str) -> bool {
    let media = text.strip_prefix("data:").and_then(|rest| rest.split_once(','));
    media.is_some_and(|(media, _)| media.ends_with(";base64"))
}

/// Whether a part stands for an image, a sound or a document.
fn is_attachment(part: &Map<String, Value>) -> bool {
    let any = |names| members(part, names).next().is_some();
    match part.get("type").and_then(Value::as_str) {
        // Anthropic's documents of plain text stand in `data` as well.
        Some("text") => false,
        Some("image_generation_call") => true,
        Some("url") if part.contains_key("url") => true,
        _ => part.get("data").is_some_and(Value::is_string) && any(MEDIA_TYPES) || any(ATTACHED),
    }
}

#[cfg(test)]
mod tests;
