//! Guides: what to set up, and why.
//!
//! | Page | Read it |
//! |---|---|
//! | [`refusals`] | to see what a call does about each answer of a server |
//! | [`policy`] | to set budgets, attempts and backoff, in code or in a TOML file |
//! | [`gate`] | to set limits and priorities, and to see the state of each scope |
//! | [`routes`] | to send calls elsewhere: other deployments, fail-over, tickets for a job queue |
//! | [`ownership`] | if anything else in your stack retries |
//! | [`observing`] | for logs, metrics and the report of one call |
//! | [`testing`] | to test code that meets rate limits |
//! | [`migrating`] | if you come from reqwest-retry, backon or a hand-written loop |
//! | [`language_models`] | for slow heads, token limits, idempotency keys and async-openai |
//! | [`own_gateway`] | for a server that says things in its own way |

macro_rules! pages {
    ($($name:ident)+) => {$(
        #[doc = include_str!(concat!("guide/", stringify!($name), ".md"))]
        pub mod $name {}
    )+};
}

pages! { refusals policy gate routes ownership observing testing migrating language_models own_gateway }
