//! The limits of the zoo against cases that were reckoned by hand, and what its cells promise.

use std::collections::HashSet;

use crate::zoo::cells;
use crate::zoo::dialect::{Advice, Dialect, Voice};
use crate::zoo::limit::{Limit, Start};
use crate::zoo::server::{Banned, Rule, Server, Spec};

fn server(limit: Limit, advice: Advice) -> Server {
    Server::new(Spec::new(limit, Voice::new(Dialect::Silent, advice)), 1, 0.0)
}

/// Seconds that a refusal at a moment advises; nothing for a success.
fn advised(server: &mut Server, at: f64) -> Option<f64> {
    let answer = server.arrive(at, 0, 1.0);
    if answer.is_success() { None } else { answer.advised }
}

#[test]
fn a_bucket_admits_its_burst_and_then_its_rate() {
    let mut server = server(Limit::Bucket { rate: 10.0, burst: 3.0, delays: false }, Advice::Milliseconds);
    for _ in 0..3 {
        assert_eq!(advised(&mut server, 0.0), None);
    }
    assert_eq!(advised(&mut server, 0.0), Some(0.1));
    assert_eq!(advised(&mut server, 0.04), Some(0.06));
    assert_eq!(advised(&mut server, 0.1), None);
    assert_eq!(advised(&mut server, 0.1), Some(0.1));
}

#[test]
fn a_bucket_without_burst_is_a_spacing_and_one_that_delays_answers_in_turn() {
    let mut spaced = server(Limit::Bucket { rate: 20.0, burst: 1.0, delays: false }, Advice::Nothing);
    let taken: Vec<bool> =
        [0.0, 0.049, 0.05, 0.06, 0.1].map(|at| spaced.arrive(at, 0, 1.0).is_success()).into();
    assert_eq!(taken, [true, false, true, false, true]);
    let mut delaying = server(Limit::Bucket { rate: 20.0, burst: 3.0, delays: true }, Advice::Nothing);
    let delays = [0.0; 4].map(|at| delaying.arrive(at, 0, 1.0)).map(|it| it.is_success().then_some(it.delay));
    assert_eq!(delays, [Some(0.0), Some(0.05), Some(0.1), None]);
}

#[test]
fn a_fixed_window_begins_at_its_phase_or_with_a_call() {
    for (start, refused, again) in [(Start::Aligned(1.0), 0.5, 1.0), (Start::FirstCall, 4.5, 5.1)] {
        let mut server = server(Limit::Window { most: 2.0, seconds: 5.0, start }, Advice::Milliseconds);
        assert_eq!([0.1, 0.2].map(|at| advised(&mut server, at)), [None, None]);
        // At .5 s: half a second to the phase, 4.6 s to the end of what began at .1.
        let wait = advised(&mut server, 0.5).expect("a refusal");
        assert!((wait - refused).abs() < 0.11, "{start:?}: {wait}");
        assert_eq!([again, again, again].map(|at| advised(&mut server, at).is_some()), [false, false, true]);
    }
}

#[test]
fn a_sliding_window_frees_one_place_at_a_time_and_may_count_refusals() {
    let sliding = |counts_refused| Limit::Sliding { most: 2, seconds: 1.0, counts_refused };
    let mut plain = server(sliding(false), Advice::Milliseconds);
    let taken = [0.0, 0.5, 0.9, 1.0, 1.4, 1.5].map(|at| advised(&mut plain, at).is_none());
    assert_eq!(taken, [true, true, false, true, false, true]);
    let mut counting = server(sliding(true), Advice::Milliseconds);
    let taken = [0.0, 0.5, 0.9, 1.0, 1.4, 1.95].map(|at| advised(&mut counting, at).is_none());
    assert_eq!(taken, [true, true, false, false, false, false], "who goes on is never let in");
    assert_eq!(advised(&mut counting, 3.1), None);
}

#[test]
fn haproxys_counter_weighs_the_period_before_by_what_is_left_of_it() {
    let mut server =
        server(Limit::Counter { most: 10.0, seconds: 5.0, counts_refused: false }, Advice::Milliseconds);
    let mut admitted = |at: f64| (0..20).filter(|_| server.arrive(at, 0, 1.0).is_success()).count();
    assert_eq!(admitted(0.0), 10);
    assert_eq!(admitted(4.9), 0);
    assert_eq!(admitted(5.0), 0, "all of the period before still counts");
    assert_eq!(admitted(7.5), 5, "half of it does");
}

#[test]
fn calls_at_the_same_time_are_counted_to_their_end() {
    let mut server = server(Limit::InFlight { most: 2 }, Advice::Fixed(500));
    assert_eq!([advised(&mut server, 0.0), advised(&mut server, 0.0)], [None, None]);
    assert_eq!(advised(&mut server, 9.0), Some(0.5));
    server.leave(9.0);
    assert_eq!(advised(&mut server, 9.0), None);
}

#[test]
fn tokens_are_set_aside_and_counted_at_the_end() {
    let limit = Limit::Tokens { most: 100.0, seconds: 60.0, reserve: 40.0, tokens: 10.0 };
    let mut server = server(limit, Advice::Nothing);
    let mut is_taken = |at: f64| server.arrive(at, 0, 1.0).is_success();
    assert_eq!([is_taken(0.0), is_taken(0.0), is_taken(0.0)], [true, true, false]);
    server.leave(1.0);
    server.leave(1.0);
    let taken = (0..9).map(|_| {
        let taken = server.arrive(2.0, 0, 1.0).is_success();
        if taken {
            server.leave(2.0);
        }
        taken
    });
    assert_eq!(taken.filter(|taken| *taken).count(), 5, "20, 30, .. 60, and 70 with 40 is too much");
    assert!(server.arrive(60.0, 0, 1.0).is_success(), "the window is over");
}

#[test]
fn the_first_limit_that_refuses_advises_and_none_is_charged() {
    let rules = vec![
        Rule::always(Limit::InFlight { most: 1 }).advising(Advice::Seconds(3)),
        Rule::between(10.0, 20.0, Limit::Closed).advising(Advice::Seconds(7)),
    ];
    let spec = Spec { rules, voice: Voice::new(Dialect::Silent, Advice::Nothing), banned: None };
    let mut server = Server::new(spec, 1, 0.0);
    assert_eq!(advised(&mut server, 0.0), None);
    assert_eq!(advised(&mut server, 1.0), Some(3.0));
    server.leave(2.0);
    assert_eq!(advised(&mut server, 10.0), Some(7.0));
    assert_eq!(advised(&mut server, 20.0), None, "nothing was taken by the refused call");
}

#[test]
fn banned_callers_are_always_refused_and_take_nothing() {
    let limit = Limit::Bucket { rate: 1.0, burst: 1.0, delays: false };
    let spec = Spec {
        banned: Some(Banned { callers: 2, advice: Some(60) }),
        ..Spec::new(limit, Voice::new(Dialect::Silent, Advice::Nothing))
    };
    let mut server = Server::new(spec, 1, 0.0);
    for caller in [0, 1] {
        assert_eq!(server.arrive(0.0, caller, 1.0).advised, Some(60.0));
    }
    assert!(server.arrive(0.0, 2, 1.0).is_success());
    assert_eq!(server.arrive(0.0, 2, 1.0).advised, None, "a refusal of the limit, which advises nothing");
}

#[test]
fn no_two_cells_have_one_title_and_a_tenth_is_kept_aside() {
    let cells = cells::all();
    let mut titles = HashSet::new();
    for cell in &cells {
        assert!(titles.insert(cell.title()), "{} is there twice", cell.title());
    }
    let aside = cells.iter().filter(|cell| cell.is_kept_aside()).count() as f64 / cells.len() as f64;
    assert!((0.08..0.13).contains(&aside), "{aside} of {} cells are kept aside", cells.len());
    assert!(cells.iter().filter(|cell| cell.is_quick).count() > 40);
}

#[test]
fn what_is_untrue_has_its_twin_on_the_same_side() {
    use crate::zoo::cell::Kind;
    let cells = cells::all();
    for cell in &cells {
        let Kind::Untrue { twin } = &cell.kind else { continue };
        let twin = cells.iter().find(|other| other.title() == *twin).expect("a twin");
        assert_eq!(cell.is_kept_aside(), twin.is_kept_aside(), "{}", cell.title());
    }
}

#[test]
fn the_readme_shows_cells_that_there_are() {
    let cells = cells::all();
    for (title, _) in crate::zoo::tables::SHOWN {
        let cell = cells.iter().find(|cell| cell.title() == title).expect(title);
        assert!(!cell.is_kept_aside() && cell.is_worth_playing(0.002), "{title}");
    }
}
