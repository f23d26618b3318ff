//! The figures that the gate has to reach against the model of a rate-limited service.

mod support;

use support::{Advice, Figures, Scenario, ServerKind, Strategy, average};

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

#[test]
#[ignore = "trace"]
fn trace() {
    let base = Scenario::ptu(8, 4_000.0, 3.0, 1);
    let _ = support::run(Scenario { rejection_cost: 1.0, ..base }, Strategy::Admission);
}
