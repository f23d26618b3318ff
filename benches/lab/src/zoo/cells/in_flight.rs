//! Limits of calls at the same time, and LiteLLM, which has one among others.

use super::{Sizes, TWO, sized};
use crate::zoo::cell::{Cell, Goal};
use crate::zoo::dialect::{Advice, Dialect, Voice};
use crate::zoo::limit::{Limit, Start};
use crate::zoo::server::Spec;

pub(super) fn add(cells: &mut Vec<Cell>) {
    plain(cells);
    litellm(cells);
}

fn plain(cells: &mut Vec<Cell>) {
    let family = "concurrency";
    let voice = Voice::new(Dialect::Silent, Advice::Nothing);
    let sizes: Sizes = &[(8, 0.02), (8, 0.2), (8, 2.0), (40, 0.02), (40, 0.2), (40, 2.0)];
    let of = |name: &str, most, voice| {
        Cell::new(family, name, Spec::new(Limit::InFlight { most }, voice), Goal::IN_FLIGHT)
    };
    sized(cells, &of("nginx limit_conn 5", 5, voice), sizes);
    sized(cells, &of("nginx limit_conn 5, 503", 5, Voice { status: 503, ..voice }), &[(8, 0.2), (40, 0.2)]);
    let varies = Cell { varies: true, ..of("5 at once, exponential", 5, voice) };
    sized(cells, &varies, &[(8, 0.2), (8, 2.0), (40, 0.2), (40, 2.0)]);
    sized(cells, &of("20 at once", 20, voice), &[(64, 0.2), (512, 2.0)]);
    let named = Voice::new(Dialect::LiteLlm("max_parallel_requests"), Advice::Fixed(500));
    sized(cells, &of("5 at once, named, says .5 s", 5, named), &[(8, 0.2), (40, 0.2), (40, 2.0)]);
    let far = of("3 at once, says 20 s", 3, Voice::new(Dialect::Silent, Advice::Seconds(20)));
    sized(cells, &Cell { is_out_of_reach: true, ..far }, TWO);
}

fn litellm(cells: &mut Vec<Cell>) {
    let minute = |most| Limit::Window { most, seconds: 60.0, start: Start::FirstCall };
    let tokens = Limit::Tokens { most: 6000.0, seconds: 60.0, reserve: 1025.0, tokens: 30.0 };
    let sizes: Sizes = &[(8, 0.02), (40, 0.2)];
    for (name, limit, dialect) in [
        ("LiteLLM rpm 240, says 60 s", minute(240.0), Dialect::LiteLlm("requests")),
        ("LiteLLM tpm 6000, says 60 s", tokens, Dialect::LiteLlm("tokens")),
    ] {
        let spec = Spec::new(limit, Voice::new(dialect, Advice::Seconds(60)));
        let cell = Cell::new("LiteLLM", name, spec, Goal::ADVISED).for_minutes();
        sized(cells, &Cell { seconds: 480.0, budget: 150.0, ..cell }, sizes);
    }
    let aligned = Limit::Window { most: 120.0, seconds: 60.0, start: Start::Aligned(11.0) };
    let spec = Spec::new(aligned, Voice::new(Dialect::LiteLlmDeployment, Advice::Nothing));
    sized(
        cells,
        &Cell::new("LiteLLM", "LiteLLM deployment, rpm 120", spec, Goal::UNADVISED).for_minutes(),
        sizes,
    );
    let parallel = Spec::new(
        Limit::InFlight { most: 3 },
        Voice::new(Dialect::LiteLlm("max_parallel_requests"), Advice::Seconds(60)),
    );
    let cell =
        Cell::new("LiteLLM", "LiteLLM max_parallel 3, says 60 s", parallel, Goal::IN_FLIGHT).for_minutes();
    sized(cells, &Cell { is_out_of_reach: true, ..cell }, &[(8, 0.02), (8, 0.2)]);
}
