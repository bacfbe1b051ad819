//! A fleet of gateways through a day, in virtual time: `fleet [--seed N] [--gateways N] [--hours N] [--limits A,B] [--plot FILE]`.
//!
//! The real limiter and the real parts of gateways, with demand that moves, lost and late messages, clocks that are askew, restarts,
//! partitions and new leaders by seed. It ends with a panic when a bound is broken, and prints its figures.
//!
//! The limits are `rate`, `seats`, `counted-rate` and `counted-seats`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a simulation: all numbers are its own"
)]

mod bounds;
mod demand;
mod faults;
mod figures;
mod follow;
mod gateway;
mod lots;
mod plan;
mod plot;
#[cfg(test)]
mod tests;
mod world;

use std::time::Instant;

use plan::Plan;
use world::{SECOND, World};

/// The run that is asked for.
struct Run {
    seed: u64,
    gateways: u32,
    hours: f64,
    limits: String,
    plot: Option<String>,
}

impl Run {
    fn read(arguments: impl Iterator<Item = String>) -> Self {
        let mut run = Run { seed: 1, gateways: 1_000, hours: 24.0, limits: "rate,seats".to_owned(), plot: None };
        let arguments: Vec<String> = arguments.collect();
        for pair in arguments.chunks(2) {
            match (pair[0].as_str(), pair.get(1).map(String::as_str).unwrap_or_default()) {
                ("--seed", seed) => run.seed = seed.parse().unwrap(),
                ("--gateways", gateways) => run.gateways = gateways.parse().unwrap(),
                ("--hours", hours) => run.hours = hours.parse().unwrap(),
                ("--limits", limits) => run.limits = limits.to_owned(),
                ("--plot", file) => run.plot = Some(file.to_owned()),
                (other, _) => panic!("{other} is no argument"),
            }
        }
        run
    }

    fn plans(&self) -> Vec<Plan> {
        let plan = |name| Plan::of(name, self.gateways).unwrap_or_else(|| panic!("no limit is named {name}"));
        self.limits.split(',').map(plan).collect()
    }

    fn world(&self) -> World {
        let length = (self.hours * 3_600.0) as u64 * SECOND;
        let mut world = World::new(self.seed, self.gateways as usize, self.plans(), length);
        world.run(length);
        world
    }
}

fn main() {
    let run = Run::read(std::env::args().skip(1));
    let start = Instant::now();
    let world = run.world();
    println!(
        "seed {}, {} gateways, {} h, {}: {:.0} s",
        run.seed,
        run.gateways,
        run.hours,
        run.limits,
        start.elapsed().as_secs_f64()
    );
    println!("{}", world.figures.lines(&world).join("\n"));
    if let Some(file) = &run.plot {
        std::fs::write(file, plot::picture(&world, &run.plans(), run.hours)).unwrap();
    }
}
