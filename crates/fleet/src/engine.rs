//! Query engine: DataFusion's operators with our own sources, in bounded memory.
//!
//! Sources stream: a file is opened when the previous one has ended. Each partition has hosts of
//! its own, in order, so a group that begins with the host is complete when the host is. State
//! beyond the memory limit is spilled to temporary files.

use crate::error::FleetError;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion_common::DataFusionError;
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::FairSpillPool;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::col;
use datafusion_physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion_physical_plan::{ExecutionPlan, SendableRecordBatchStream, execute_stream};
use futures::StreamExt;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Rows that an operator takes at a time.
const BATCH_ROWS: usize = 8192;
/// Share of the memory that the operators may reserve. They do not count rows in transit: a row
/// group per thread, the batches between operators, the file being written.
const RESERVABLE: f64 = 0.4;

/// Batches, or the error that ended them.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, FleetError>> + Send>;

/// Part of a query's input. Each opening reads it from its begin.
#[derive(Clone)]
pub struct Source {
    /// Schema of its batches.
    pub schema: SchemaRef,
    /// Opens the source.
    pub open: Arc<dyn Fn() -> Batches + Send + Sync>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl PartitionStream for Source {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let external = |e: FleetError| DataFusionError::External(Box::new(e));
        let batches = (self.open)().map(move |batch| batch.map_err(external));
        let stream = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            stream,
        ))
    }
}

/// Query for sums by keys.
#[derive(Clone, Copy, Debug)]
pub struct Sums<'a> {
    /// Columns whose values form a group.
    pub keys: &'a [&'a str],
    /// Columns to sum up, which keep their names.
    pub sums: &'a [&'a str],
    /// Whether the sources are ordered by the first key and share no value of it.
    pub is_ordered: bool,
}

/// Query engine.
pub struct Engine {
    runtime: Runtime,
    context: Arc<TaskContext>,
}

impl Engine {
    /// Creates an engine. Its operators, and rows in transit, stay within `memory_bytes` and spill
    /// to `temporary`.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn new(memory_bytes: u64, threads: usize, temporary: &Path) -> Result<Engine, FleetError> {
        let reservable = (memory_bytes as f64 * RESERVABLE) as usize;
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(reservable)))
            .with_temp_file_path(temporary)
            .build_arc()?;
        let config = SessionConfig::new().with_batch_size(BATCH_ROWS);
        let context = TaskContext::default()
            .with_session_config(config)
            .with_runtime(environment);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("fleet")
            .build()
            .map_err(|e| FleetError::Query(format!("its threads cannot be started: {e}")))?;
        Ok(Engine {
            runtime,
            context: Arc::new(context),
        })
    }

    /// Groups of `sources` with their sums, unordered unless the sources are ordered.
    ///
    /// # Errors
    /// A column is missing. Later errors come with the batches.
    pub fn sums(&self, sources: Vec<Source>, sums: Sums<'_>) -> Result<Rows<'_>, FleetError> {
        let Some(schema) = sources.first().map(|s| Arc::clone(&s.schema)) else {
            return Err(FleetError::Query("there is nothing to read".to_owned()));
        };
        let mode = match sources.len() {
            1 => AggregateMode::Single,
            // The partitions share no group.
            _ => AggregateMode::SinglePartitioned,
        };
        let key = |name: &&str| Ok((col(name, &schema)?, (*name).to_owned()));
        let keys: Vec<(Arc<dyn PhysicalExpr>, String)> = sums
            .keys
            .iter()
            .map(key)
            .collect::<Result<_, DataFusionError>>()?;
        let sum = |name: &&str| -> Result<_, DataFusionError> {
            let built = AggregateExprBuilder::new(sum_udaf(), vec![col(name, &schema)?])
                .schema(Arc::clone(&schema))
                .alias(*name)
                .build()?;
            Ok(Arc::new(built))
        };
        let added = sums.sums.iter().map(sum).collect::<Result<Vec<_>, _>>()?;
        let order = LexOrdering::new(
            (keys.iter().take(usize::from(sums.is_ordered)))
                .map(|(key, _)| PhysicalSortExpr::new_default(Arc::clone(key))),
        );
        let table = table(sources, order)?;
        let filters = vec![None; added.len()];
        let group = PhysicalGroupBy::new_single(keys);
        let plan = AggregateExec::try_new(mode, group, added, filters, table, schema)?;
        self.run(Arc::new(plan))
    }

    /// The `most` rows of `source` with the largest values in `column`, largest first.
    ///
    /// # Errors
    /// The errors of [`Engine::sums`].
    pub fn top(&self, source: Source, column: &str, most: usize) -> Result<Rows<'_>, FleetError> {
        let by = col(column, &source.schema)?;
        let order = LexOrdering::new([PhysicalSortExpr::new_default(by).desc().nulls_last()])
            .ok_or_else(|| FleetError::Query(format!("nothing can be ordered by {column}")))?;
        let table = table(vec![source], None)?;
        self.run(Arc::new(SortExec::new(order, table).with_fetch(Some(most))))
    }

    fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Rows<'_>, FleetError> {
        let _guard = self.runtime.enter();
        let schema = plan.schema();
        let stream = execute_stream(Arc::clone(&plan), Arc::clone(&self.context))?;
        Ok(Rows {
            schema,
            plan,
            stream,
            runtime: &self.runtime,
        })
    }
}

fn table(
    sources: Vec<Source>,
    order: Option<LexOrdering>,
) -> Result<Arc<dyn ExecutionPlan>, FleetError> {
    let schema = Arc::clone(&sources[0].schema);
    let partitions = sources
        .into_iter()
        .map(|s| Arc::new(s) as Arc<dyn PartitionStream>);
    let table =
        StreamingTableExec::try_new(schema, partitions.collect(), None, order, false, None)?;
    Ok(Arc::new(table))
}

/// Result of a query, computed while it is read.
pub struct Rows<'a> {
    /// Schema of its batches.
    pub schema: SchemaRef,
    plan: Arc<dyn ExecutionPlan>,
    stream: SendableRecordBatchStream,
    runtime: &'a Runtime,
}

impl Rows<'_> {
    /// Number of bytes that the query has spilled so far.
    pub fn spilled_bytes(&self) -> usize {
        let metrics = self.plan.metrics();
        metrics.and_then(|m| m.spilled_bytes()).unwrap_or(0)
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<RecordBatch, FleetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.runtime.block_on(self.stream.next());
        next.map(|batch| batch.map_err(FleetError::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, UInt64Array};
    use arrow_schema::{DataType, Field, Schema};

    const GROUPS: u64 = 400_000;

    /// Source with each group twice, the second time in reverse order.
    fn source() -> Source {
        let field = |name, kind| Field::new(name, kind, false);
        let fields = vec![field("key", DataType::UInt64), field("ns", DataType::Int64)];
        let schema = Arc::new(Schema::new(fields));
        let of = Arc::clone(&schema);
        let open = move || -> Batches {
            let schema = Arc::clone(&of);
            let keys = (0..GROUPS).chain((0..GROUPS).rev());
            let keys: Vec<u64> = keys.collect();
            let batches: Vec<_> = keys.chunks(BATCH_ROWS).map(<[u64]>::to_vec).collect();
            Box::new(batches.into_iter().map(move |keys| {
                let ns = Int64Array::from_iter_values(keys.iter().map(|k| *k as i64));
                let columns: Vec<arrow_array::ArrayRef> =
                    vec![Arc::new(UInt64Array::from(keys)), Arc::new(ns)];
                Ok(RecordBatch::try_new(Arc::clone(&schema), columns).unwrap())
            }))
        };
        Source {
            schema,
            open: Arc::new(open),
        }
    }

    fn sums() -> Sums<'static> {
        Sums {
            keys: &["key"],
            sums: &["ns"],
            is_ordered: false,
        }
    }

    #[test]
    fn spilling_loses_no_group_and_doubles_none() {
        let folder = tempfile::tempdir().unwrap();
        // The keys and sums alone have 6.4 MB.
        let engine = Engine::new(8 << 20, 1, folder.path()).unwrap();
        let mut rows = engine.sums(vec![source()], sums()).unwrap();
        let mut seen = vec![false; GROUPS as usize];
        for batch in rows.by_ref() {
            let batch = batch.unwrap();
            let column = |n: usize| Arc::clone(batch.column(n));
            let (keys, ns) = (column(0), column(1));
            let keys: &UInt64Array = keys.as_any().downcast_ref().unwrap();
            let ns: &Int64Array = ns.as_any().downcast_ref().unwrap();
            for (key, ns) in keys.values().iter().zip(ns.values()) {
                assert_eq!(*ns, 2 * *key as i64);
                let seen = &mut seen[*key as usize];
                assert!(!*seen, "group {key} twice");
                *seen = true;
            }
        }
        assert!(seen.iter().all(|seen| *seen), "a group is lost");
        assert!(rows.spilled_bytes() > 0, "nothing was spilled");
        drop(rows);
        drop(engine);
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "temporary files are left");
    }

    #[test]
    fn enough_memory_avoids_spilling() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::new(512 << 20, 1, folder.path()).unwrap();
        let mut rows = engine.sums(vec![source()], sums()).unwrap();
        let groups: usize = rows.by_ref().map(|b| b.unwrap().num_rows()).sum();
        assert_eq!((groups as u64, rows.spilled_bytes()), (GROUPS, 0));
    }
}
