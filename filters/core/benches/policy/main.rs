//! How long it takes to find the policy of a request. Figures and method: docs/performance.md.

#![allow(missing_docs, reason = "criterion's macros write public items")]

mod workload;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use portcullis_core::policy::Policies;
use workload::{Hit, Shape, policies, requests};

fn first_match(criterion: &mut Criterion) {
    let excluding = [Shape::AllButOne, Shape::AllButFour, Shape::AllButFive];
    for shape in [Shape::Tenants, Shape::Crowded, Shape::Wide].into_iter().chain(excluding) {
        for count in [10, 100, 1_000, 10_000] {
            let index = Policies::new(&policies(shape, count));
            for hit in [Hit::Early, Hit::Late, Hit::Never] {
                let asked = requests(shape, &index, count, hit);
                if asked.is_empty() {
                    continue;
                }
                let mut group = criterion.benchmark_group(format!("{shape:?}/{hit:?}"));
                group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
                    let mut next = asked.iter().cycle();
                    bencher
                        .iter(|| next.next().map(|(info, user)| index.first_match(black_box(info), black_box(user))));
                });
                group.finish();
            }
        }
    }
}

criterion_group!(benches, first_match);
criterion_main!(benches);
