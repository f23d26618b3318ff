//! The figures that the gate has to reach against the model of a rate-limited service.
//!
//! A pace that knows one kind of limiter only reaches a third of these 429s per success here, and half the goodput or none at
//! others: the calls between two refusals are the price of holding everywhere.

mod model;

use model::{Advice, Figures, Scenario, ServerKind, Strategy, average, play, run};
use reqwest_admission::gate::Gate;

fn line(name: &str, figures: &Figures) {
    println!(
        "{name:44} {:6.2} % / {:.4} / {:5.2} / {:5.2} / {:4.1} % / peak {:4} / refusal {:.3} s / makespan {:.1}",
        figures.goodput * 100.0,
        figures.rejections_per_success,
        figures.p50,
        figures.p99,
        figures.failed * 100.0,
        figures.peak,
        figures.refusal,
        figures.makespan
    );
}

#[test]
#[ignore = "the whole table; run it in release"]
fn table() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let seeds = std::env::var("SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let row = |name: String, scenario: Scenario, oracle: bool| {
        if !name.contains(&only) {
            return;
        }
        if oracle {
            line(&format!("{name} oracle"), &average(scenario, Strategy::Oracle, 1..=seeds));
        }
        line(&name, &average(scenario, Strategy::Admission, 1..=seeds));
    };
    let sizes = [(8, 4_000.0), (64, 32_000.0), (512, 256_000.0)];
    for (callers, capacity) in sizes {
        for load in [0.8, 1.2, 3.0] {
            row(format!("ptu {callers}/{capacity} {load}x"), Scenario::ptu(callers, capacity, load, 0), true);
        }
    }
    for load in [0.8, 1.2, 3.0] {
        row(format!("small 64/4000 {load}x"), Scenario::ptu(64, 4_000.0, load, 0), true);
    }
    for (callers, capacity) in sizes {
        let mut batch = Scenario::ptu(callers, capacity, 0.0, 0);
        (batch.warm_up, batch.seconds) = (0.0, 300.0);
        row(format!("batch {callers}/{capacity}"), batch, true);
    }
    for (callers, capacity) in sizes {
        let base = Scenario::ptu(callers, capacity, 3.0, 0);
        for cost in [0.1, 1.0] {
            row(
                format!("costly {cost} {callers}/{capacity} 3x"),
                Scenario { rejection_cost: cost, ..base },
                false,
            );
        }
        for advice in [Advice::WholeSeconds, Advice::Missing] {
            row(format!("advice {advice:?} {callers}/{capacity} 3x"), Scenario { advice, ..base }, false);
            let base = Scenario::ptu(callers, capacity, 1.2, 0);
            row(format!("advice {advice:?} {callers}/{capacity} 1.2x"), Scenario { advice, ..base }, false);
        }
        for step in [0.5, 2.0] {
            row(format!("step {step} {callers}/{capacity} 3x"), Scenario { step, ..base }, true);
        }
        for budget in [0.5, 2.0] {
            row(format!("budget {budget} {callers}/{capacity} 3x"), Scenario { budget, ..base }, true);
        }
    }
    for callers in [64, 512] {
        let base = Scenario::ptu(callers, callers as f64 * 500.0, 3.0, 0);
        row(format!("processes 8 {callers} 3x"), Scenario { processes: 8, ..base }, false);
    }
    for processes in [1, 8] {
        for load in [1.2, 3.0] {
            let base = Scenario::ptu(64, 32_000.0, load, 0);
            let scenario = Scenario { processes, server: ServerKind::Headers, ..base };
            row(format!("headers {processes}p 64/32000 {load}x"), scenario, true);
        }
    }
}

/// The quick form of the figures: fewer seconds, one seed, the bounds a little wider where chance is larger.
fn check(scenario: Scenario, rejections: f64, peak: f64) {
    let oracle = run(scenario, Strategy::Oracle);
    let ours = run(scenario, Strategy::Admission);
    let name = format!("{}/{} {}x", scenario.callers, scenario.capacity, scenario.load);
    line(&format!("{name} oracle"), &oracle);
    line(&name, &ours);
    assert!(ours.goodput >= 0.975 * oracle.goodput, "{name}: goodput {} of {}", ours.goodput, oracle.goodput);
    assert!(ours.p99 <= 1.10 * oracle.p99 + 2.5, "{name}: p99 {} to {}", ours.p99, oracle.p99);
    assert!(ours.failed <= oracle.failed + 0.005, "{name}: failed {} to {}", ours.failed, oracle.failed);
    assert!(
        ours.rejections_per_success <= rejections,
        "{name}: {} 429s per success",
        ours.rejections_per_success
    );
    assert!(ours.peak <= peak, "{name}: {} 429s in a second", ours.peak);
}

fn quick(callers: usize, capacity: f64, load: f64) -> Scenario {
    let mut scenario = Scenario::ptu(callers, capacity, load, 3);
    (scenario.warm_up, scenario.seconds) = (40.0, 200.0);
    scenario
}

#[test]
fn eight_callers_reach_the_figures() {
    for load in [0.8, 1.2, 3.0] {
        check(Scenario { seconds: 1800.0, seed: 1, ..quick(8, 4_000.0, load) }, 0.05, 10.0);
    }
}

#[test]
fn sixty_four_callers_reach_the_figures() {
    for load in [0.8, 1.2, 3.0] {
        check(quick(64, 32_000.0, load), 0.03, 20.0);
    }
}

#[test]
fn five_hundred_callers_reach_the_figures() {
    // The peak is that of finding the rate, in the first seconds.
    check(Scenario { warm_up: 20.0, seconds: 40.0, ..quick(512, 256_000.0, 3.0) }, 0.015, 120.0);
}

#[test]
fn a_small_quota_is_shared_by_many() {
    check(Scenario { seconds: 900.0, ..quick(64, 4_000.0, 3.0) }, 0.035, 8.0);
}

#[test]
fn refusals_that_are_charged_do_not_collapse_the_throughput() {
    for (cost, goodput) in [(0.1, 0.97), (1.0, 0.95)] {
        let figures = run(Scenario { rejection_cost: cost, ..quick(64, 32_000.0, 3.0) }, Strategy::Admission);
        assert!(figures.goodput >= goodput, "{cost}: {figures:?}");
    }
}

#[test]
fn advice_in_whole_seconds_or_none_is_enough() {
    for advice in [Advice::WholeSeconds, Advice::Missing] {
        let figures = run(Scenario { advice, ..quick(64, 32_000.0, 3.0) }, Strategy::Admission);
        assert!(figures.goodput >= 0.96, "{advice:?}: {figures:?}");
        assert!(figures.rejections_per_success <= 0.035, "{advice:?}: {figures:?}");
    }
}

#[test]
fn a_batch_takes_no_longer_than_it_must() {
    let batch = Scenario { warm_up: 0.0, ..quick(64, 32_000.0, 0.0) };
    let (oracle, ours) = (run(batch, Strategy::Oracle), run(batch, Strategy::Admission));
    assert!(ours.makespan <= 1.01 * oracle.makespan, "{ours:?} to {oracle:?}");
    assert!(ours.failed <= 0.0 && ours.rejections_per_success <= 0.05, "{ours:?}");
}

/// Hundreds at once into a bucket for eighty: while the rate is being found, refusals must be borne by all in turn, or the
/// first in the queue use up their attempts (six by default).
#[test]
fn a_herd_at_a_small_bucket_uses_up_nobodys_attempts() {
    for seed in 1..=3 {
        let herd = Scenario { warm_up: 0.0, seconds: 60.0, seed, ..quick(512, 32_000.0, 0.0) };
        let gate = |_: &_, _| Gate::builder().seed(seed * 1000).build().expect("valid settings");
        let world = play(herd, gate);
        assert!(world.most_refusals() < 6, "seed {seed}: {} refusals of one call", world.most_refusals());
    }
}

#[test]
fn eight_processes_share_without_a_store() {
    let figures = run(Scenario { processes: 8, ..quick(64, 32_000.0, 3.0) }, Strategy::Admission);
    assert!(figures.failed <= 0.0 && figures.rejections_per_success <= 0.05, "{figures:?}");
    assert!(figures.p99 <= 16.0, "{figures:?}");
}

#[test]
fn processes_of_one_caller_each_do_not_wake_as_a_herd() {
    let figures = run(Scenario { processes: 64, ..quick(64, 32_000.0, 3.0) }, Strategy::Admission);
    line("64 processes", &figures);
    assert!(figures.rejections_per_success <= 0.5, "{figures:?}");
    assert!(figures.goodput >= 0.985 && figures.failed <= 0.005, "{figures:?}");
}

#[test]
fn a_server_that_states_its_limits_hardly_has_to_refuse() {
    let scenario = Scenario { server: ServerKind::Headers, ..quick(64, 32_000.0, 3.0) };
    let (oracle, ours) = (run(scenario, Strategy::Oracle), run(scenario, Strategy::Admission));
    assert!(ours.rejections_per_success <= 0.003, "{ours:?}");
    assert!(ours.p99 <= 1.1 * oracle.p99 + 0.4, "{ours:?} to {oracle:?}");
}

#[test]
fn what_cannot_be_in_time_is_told_at_once() {
    let figures = run(Scenario { budget: 0.5, ..quick(64, 32_000.0, 3.0) }, Strategy::Admission);
    assert!(figures.refusal <= 0.020, "{figures:?}");
}
