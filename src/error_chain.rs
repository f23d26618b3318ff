//! Signals of ours as errors: raised so that they can be found again in whatever others have wrapped around them.

use std::error::Error;
use std::sync::Arc;

/// The cause that a raised signal brings along: the signal once more.
///
/// A wrapper that shows its cause's causes as its own (`#[error(transparent)]`, as reqwest-retry and async-openai have it)
/// hides the error that it wraps from everybody who walks the sources. It does not hide this.
#[derive(Debug, thiserror::Error)]
#[error("raised by the admission layer")]
pub(crate) struct Echo<T>(pub(crate) T);

/// `signal` as the error of a stack.
pub(crate) fn raise<T: Error + Clone + Send + Sync + 'static>(signal: T) -> reqwest_middleware::Error {
    attach(reqwest_middleware::Error::middleware(Echo(signal.clone())), signal)
}

/// Adds `signal` to the error of another layer, which stays what it is.
pub(crate) fn attach<T: Error + Send + Sync + 'static>(
    error: reqwest_middleware::Error,
    signal: T,
) -> reqwest_middleware::Error {
    match error {
        reqwest_middleware::Error::Middleware(error) => {
            reqwest_middleware::Error::Middleware(error.context(signal))
        }
        other => other,
    }
}

/// The first `T` in `error` and its causes.
pub(crate) fn find<'a, T: Error + Send + Sync + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(of_a_stack) = held::<reqwest_middleware::Error>(error) {
            return in_middleware_error(of_a_stack);
        }
        let found = held::<T>(error).or_else(|| error.downcast_ref::<Echo<T>>().map(|echo| &echo.0));
        if found.is_some() {
            return found;
        }
        next = inner(error);
    }
    None
}

/// The error next in line. The `source` of some wrappers leaves out the very error that they were made of.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(error) = held::<std::io::Error>(error) {
        return error.get_ref().map(|inner| -> &(dyn Error + 'static) { inner });
    }
    if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return Some(&**shared);
    }
    match error.downcast_ref::<Arc<dyn Error>>() {
        Some(shared) => Some(&**shared),
        None => error.source(),
    }
}

/// `error` as an `E`, in a box or shared as well.
fn held<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let boxed = || error.downcast_ref::<Box<E>>().map(|boxed| &**boxed);
    let shared = || error.downcast_ref::<Arc<E>>().map(|shared| &**shared);
    error.downcast_ref().or_else(boxed).or_else(shared)
}

/// The same for an error of a stack.
pub(crate) fn in_middleware_error<T: Error + Send + Sync + 'static>(
    error: &reqwest_middleware::Error,
) -> Option<&T> {
    match error {
        // What was added as context is found by its own type only, not in the chain.
        reqwest_middleware::Error::Middleware(error) => error.downcast_ref().or_else(|| find(&**error)),
        reqwest_middleware::Error::Reqwest(error) => error.source().and_then(find),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::ownership::{ConflictKind, RetryConflict};

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Box<dyn Error + Send + Sync>);

    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Transparent(Box<dyn Error + Send + Sync>);

    /// As reqwest-retry wraps what comes out of the stack inside of it.
    #[derive(Debug, thiserror::Error)]
    enum RetryError {
        #[error("after retries")]
        After(#[source] reqwest_middleware::Error),
        #[error(transparent)]
        AtOnce(reqwest_middleware::Error),
    }

    #[derive(Debug, thiserror::Error)]
    #[error("shared")]
    struct Shared(#[source] Arc<reqwest_middleware::Error>);

    fn found(error: &(dyn Error + 'static)) -> bool {
        find::<RetryConflict>(error).is_some()
    }

    #[test]
    fn a_signal_is_found_however_it_is_wrapped() {
        use reqwest_middleware::Error as Stack;
        let conflict = || RetryConflict::new(ConflictKind::Reentry);
        let wrapped = || Stack::middleware(RetryError::AtOnce(raise(conflict())));
        let cases: Vec<Box<dyn Error + Send + Sync>> = vec![
            Box::new(conflict()),
            Box::new(raise(conflict())),
            Box::new(Stack::middleware(conflict())),
            Box::new(Outer(Box::new(raise(conflict())))),
            Box::new(Outer(Box::new(Outer(Box::new(conflict()))))),
            Box::new(Transparent(Box::new(raise(conflict())))),
            Box::new(Transparent(Box::new(Transparent(Box::new(raise(conflict())))))),
            Box::new(wrapped()),
            Box::new(Stack::middleware(RetryError::After(raise(conflict())))),
            Box::new(Stack::middleware(RetryError::AtOnce(wrapped()))),
            Box::new(Stack::middleware(RetryError::After(wrapped()))),
            Box::new(Transparent(Box::new(wrapped()))),
            Box::new(Shared(Arc::new(raise(conflict())))),
            Box::new(Outer(Box::new(Arc::new(conflict())))),
            Box::new(Outer(Box::new(Box::new(conflict())))),
            Box::new(io::Error::other(conflict())),
            Box::new(io::Error::other(raise(conflict()))),
            Box::new(Outer(Box::new(io::Error::other(Outer(Box::new(conflict())))))),
            Box::new(Outer(Box::new(Arc::<dyn Error + Send + Sync>::from(
                Box::<dyn Error + Send + Sync>::from(conflict()),
            )))),
            Box::new(Arc::<dyn Error + Send + Sync>::from(Box::<dyn Error + Send + Sync>::from(raise(
                conflict(),
            )))),
            Box::new(Arc::new(io::Error::other(conflict()))),
            Box::new(Outer(Box::new(Box::new(io::Error::other(conflict()))))),
            Box::new(io::Error::other(Arc::new(io::Error::other(Outer(Box::new(conflict())))))),
            Box::new(attach(Stack::middleware(Outer(Box::from("another"))), conflict())),
        ];
        for error in cases {
            assert!(found(&*error), "{error:?}");
        }
        for other in [Outer(Box::from("nothing of ours")), Outer(Box::new(io::Error::other("nor here")))] {
            assert!(!found(&other), "{other:?}");
        }
    }
}
