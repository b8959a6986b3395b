// Pages that are loaded when somebody goes there. Own and small: Preact's is in preact/compat,
// which brings all of React's interface along.
import type { ComponentType } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { Loading, Problem } from './parts';

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [Page, setPage] = useState<ComponentType<P> | undefined>(() => loaded);
    const [problem, setProblem] = useState('');
    useLayoutEffect(() => {
      if (loaded) return;
      load().then(
        (page) => {
          loaded = page;
          setPage(() => page);
        },
        // After an update of the daemon the old files are gone.
        () => setProblem('This page could not be loaded; load the console again.'),
      );
    }, []);
    if (Page) return <Page {...props} />;
    return problem === '' ? <Loading what="Loading …" /> : <Problem text={problem} />;
  };
}
