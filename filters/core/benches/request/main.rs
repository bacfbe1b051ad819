//! How long each phase of judging a request takes. Figures and method: docs/performance.md.

#![allow(missing_docs, reason = "criterion's macros write public items")]

mod fixture;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fixture::{PATH, RequestFixture};
use portcullis_core::header_scan::ForwardedHeaders;
use portcullis_core::request_info::{RequestInfo, check_shape, unescape_path};
use portcullis_core::{Decision, Peer};

fn phases(criterion: &mut Criterion) {
    let fixture = RequestFixture::new();
    let (plain, with_token) = (fixture.headers(None), fixture.headers(Some(&fixture.token)));
    criterion.bench_function("scan", |bencher| {
        bencher.iter(|| fixture.scan(black_box(&plain)).removals(ForwardedHeaders::default()))
    });
    criterion.bench_function("scan with a token", |bencher| {
        bencher.iter(|| fixture.scan(black_box(&with_token)).removals(ForwardedHeaders::default()));
    });
    criterion.bench_function("request info", |bencher| {
        bencher.iter(|| {
            let path = unescape_path(black_box(PATH.as_bytes())).unwrap_or_default();
            let info = RequestInfo::resolve(b"GET", &path, b"");
            info.is_ok_and(|info| check_shape(&info, PATH.as_bytes()).is_ok())
        });
    });
    let certified = |peer: Peer<'_>| matches!(fixture.decide(&fixture.scan(&plain), peer), Decision::Forward(_));
    assert!(certified(Peer::Chain(&fixture.chain)), "the certificate's user is let through");
    criterion.bench_function("scan and decide, cached certificate", |bencher| {
        bencher.iter(|| certified(black_box(Peer::Chain(&fixture.chain))));
    });
    for ranges in [10, 1_000, 100_000] {
        let listed = RequestFixture::denying(ranges);
        let headers = listed.headers(None);
        let decided = || {
            let decision = listed.decide(&listed.scan(black_box(&headers)), black_box(Peer::Chain(&listed.chain)));
            matches!(decision, Decision::Forward(_))
        };
        assert!(decided(), "no range has the client's address");
        let mut group = criterion.benchmark_group("the same, with a deny list of addresses");
        group.bench_function(BenchmarkId::from_parameter(ranges), |bencher| bencher.iter(decided));
        group.finish();
    }
    fixture.learn_token(&with_token);
    let known = || matches!(fixture.decide(&fixture.scan(black_box(&with_token)), Peer::None), Decision::Forward(_));
    assert!(known(), "the token's user is let through");
    criterion.bench_function("scan and decide, cached token", |bencher| bencher.iter(known));
}

criterion_group!(benches, phases);
criterion_main!(benches);
