//! Reading expressions, beside the `cron` crate reading the same with its seconds in front.

use std::hint::black_box;
use std::str::FromStr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use soloist::Crontab;

const EXPRESSIONS: [&str; 8] = [
    "* * * * *",
    "*/5 * * * *",
    "30 2 * * *",
    "0 9-17 * * MON-FRI",
    "15,45 */2 1,15 * *",
    "0 0 1 1,4,7,10 *",
    "5-55/10 8,12,16,20 * JAN-MAR,OCT *",
    "59 23 28-31 * *",
];

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Elements(EXPRESSIONS.len() as u64));
    group.bench_function("soloist", |bencher| {
        bencher.iter(|| EXPRESSIONS.map(|text| Crontab::from_str(black_box(text)).expect("it is in order")));
    });
    let six_fields = EXPRESSIONS.map(|text| format!("0 {text}"));
    group.bench_function("cron crate", |bencher| {
        bencher.iter(|| six_fields.each_ref().map(|text| cron::Schedule::from_str(black_box(text)).expect("so is it")));
    });
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
